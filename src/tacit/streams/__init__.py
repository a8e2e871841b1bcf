"""Streams: (round, agent) -> batch, synthetic or from your data, and the ways to share a data set out."""

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.streams import partition as partition
    from tacit.streams.arrays import from_arrays as from_arrays
    from tacit.streams.arrays import whole as whole
    from tacit.streams.arrivals import AutoregressiveStream as AutoregressiveStream
    from tacit.streams.arrivals import autoregressive as autoregressive
    from tacit.streams.batch import Batch as Batch
    from tacit.streams.dataset import Dataset as Dataset
    from tacit.streams.held_out import with_validation as with_validation
    from tacit.streams.reading.formats import open_source as open_source
    from tacit.streams.reading.options import Reading as Reading
    from tacit.streams.reading.preprocessing import Preprocessing as Preprocessing
    from tacit.streams.reading.sql import SqlQuery as SqlQuery
    from tacit.streams.reading.table import Table as Table
    from tacit.streams.reading.table import read_classes as read_classes
    from tacit.streams.reading.table import read_owners as read_owners
    from tacit.streams.reading.table import read_table as read_table
    from tacit.streams.regression import LinearRegression as LinearRegression
    from tacit.streams.regression import linear_regression as linear_regression
    from tacit.streams.splits import held_out_rows as held_out_rows
    from tacit.streams.splits import hold_out as hold_out
    from tacit.streams.splits import scaled_like as scaled_like
    from tacit.streams.stream import Stream as Stream
    from tacit.streams.stream import from_function as from_function
    from tacit.streams.synthetic import DriftStream as DriftStream
    from tacit.streams.synthetic import linear_drift as linear_drift
    from tacit.streams.synthetic import logistic_drift as logistic_drift
    from tacit.streams.tables import from_table as from_table
    from tacit.streams.tables import scaled as scaled

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "arrays": "from_arrays whole",
        "arrivals": "AutoregressiveStream autoregressive",
        "batch": "Batch",
        "dataset": "Dataset",
        "held_out": "with_validation",
        "partition": "partition",
        "reading.formats": "open_source",
        "reading.options": "Reading",
        "reading.preprocessing": "Preprocessing",
        "reading.sql": "SqlQuery",
        "reading.table": "Table read_classes read_owners read_table",
        "regression": "LinearRegression linear_regression",
        "splits": "held_out_rows hold_out scaled_like",
        "stream": "Stream from_function",
        "synthetic": "DriftStream linear_drift logistic_drift",
        "tables": "from_table scaled",
    },
)
