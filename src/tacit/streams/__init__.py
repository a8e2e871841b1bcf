"""Streams: (round, agent) -> batch, synthetic or from your data, and the ways to share a data set out."""

from tacit.streams import partition
from tacit.streams.arrays import from_arrays
from tacit.streams.autoregressive import AutoregressiveStream, autoregressive
from tacit.streams.dataset import Dataset
from tacit.streams.files import Table, read_owners, read_table
from tacit.streams.regression import LinearRegression, linear_regression
from tacit.streams.scaling import scaled
from tacit.streams.stream import Batch, Stream, from_function
from tacit.streams.synthetic import DriftStream, linear_drift, logistic_drift
from tacit.streams.tables import from_table
from tacit.streams.validation import with_validation
from tacit.streams.whole import whole

__all__ = [
    "AutoregressiveStream",
    "Batch",
    "Dataset",
    "DriftStream",
    "LinearRegression",
    "Stream",
    "Table",
    "autoregressive",
    "from_arrays",
    "from_function",
    "from_table",
    "linear_drift",
    "linear_regression",
    "logistic_drift",
    "partition",
    "read_owners",
    "read_table",
    "scaled",
    "whole",
    "with_validation",
]
