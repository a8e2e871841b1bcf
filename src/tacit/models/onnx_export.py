"""Linear models as ONNX graphs, in double precision: columns in, label, score and probability out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import ConfigError
from tacit.core.extras import require
from tacit.version import __version__

if TYPE_CHECKING:
    from tacit.models.model import Model
    from tacit.streams import Preprocessing

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
ROWS = "rows"
"""Name of the axis of all inputs and outputs."""


def graph(model: Model, preprocess: bool = True) -> bytes:
    """Return a linear model as the bytes of an ONNX file; see `Model.to_onnx`."""
    weights = model.weights()
    onnx = require("onnx", "onnx", "an export to ONNX")
    nodes = _Nodes(onnx)
    record = model.preprocessing if preprocess else None
    if record is not None:
        x = _rows(nodes, record)
    else:
        x = nodes.input("x", model.card.features - (model.card.bias and preprocess))
        x = nodes.with_ones(x) if model.card.bias and preprocess else x
    _outputs(nodes, model, x, weights)
    helper = onnx.helper
    body = helper.make_graph(nodes.nodes, "tacit", nodes.inputs, nodes.outputs, nodes.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    made = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tacit")
    made.producer_version = __version__
    onnx.checker.check_model(made, full_check=True)
    content: bytes = made.SerializeToString()
    return content


class _Nodes:
    """A graph that grows."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, *given: str, domain: str = "", name: str | None = None, **settings: Any) -> str:
        """Add an operation, and return the name of its result."""
        result = name or f"{kind}_{len(self.nodes)}"
        node = self._onnx.helper.make_node(kind, list(given), [result], domain=domain, **settings)
        self.nodes.append(node)
        return result

    def constant(self, values: Any) -> str:
        """Add numbers, or words."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def input(self, name: str, width: int = 1, words: bool = False) -> str:
        """Add an input (rows, width)."""
        kind = self._onnx.TensorProto.STRING if words else self._onnx.TensorProto.DOUBLE
        self.inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, [ROWS, width]))
        return name

    def output(self, name: str, kind: str, *shape: int) -> None:
        """Add an output (rows, ...)."""
        code = getattr(self._onnx.TensorProto, kind)
        self.outputs.append(self._onnx.helper.make_tensor_value_info(name, code, [ROWS, *shape]))

    def double(self, value: str) -> str:
        """Return a value as numbers of double precision."""
        return self.add("Cast", value, to=self._onnx.TensorProto.DOUBLE)

    def with_ones(self, x: str) -> str:
        """Return rows with a last column of ones."""
        first = self.add("Slice", x, *map(self.constant, ([0], [1], [1])))
        ones = self.add("Add", self.add("Mul", first, self.constant(0.0)), self.constant(1.0))
        return self.add("Concat", x, ones, axis=1)


def _rows(nodes: _Nodes, record: Preprocessing) -> str:
    """Return x, made of the columns of a table."""
    if record.by_owner:
        raise ConfigError(
            "columns are scaled by each owner's own numbers, which the graph does not express; export rows of x: "
            "to_onnx(path, preprocess=False), or --rows of `tacit model onnx`"
        )
    scales = {scale.column: scale for scale in record.scales}
    parts = []
    for each in record.inputs:
        if each.kind == "number":
            parts += _number(nodes, each, scales.get(each.name))
        elif each.kind == "word":
            parts += _words(nodes, each)
        else:
            raise ConfigError(
                f"column {each.name!r} is of kind {each.kind!r}, which the graph does not express; export rows of x: "
                "to_onnx(path, preprocess=False), or --rows of `tacit model onnx`"
            )
    x = nodes.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    x = nodes.with_ones(x) if record.bias else x
    if not record.unit:
        return x
    norm = nodes.add("ReduceL2", x, nodes.constant([1]), keepdims=1)
    whole = nodes.add("Where", nodes.add("Greater", norm, nodes.constant(0.0)), norm, nodes.constant(1.0))
    return nodes.add("Div", x, whole)


def _number(nodes: _Nodes, each: Any, scale: Any) -> list[str]:
    value = nodes.input(each.name)
    # A graph has no rows to refuse: without a column for it, a gap stays NaN and shows in the score.
    gap = nodes.add("IsNaN", value) if each.indicated else None
    if scale is not None and scale.by == "bounds":
        low, high = scale.numbers[0]
        moved = nodes.add("Mul", nodes.add("Sub", value, nodes.constant(low)), nodes.constant(2 / (high - low)))
        value = nodes.add("Clip", nodes.add("Sub", moved, nodes.constant(1.0)), *map(nodes.constant, (-1.0, 1.0)))
    elif scale is not None:
        mean, spread = scale.numbers[0]
        value = nodes.add(
            "Div", nodes.add("Sub", value, nodes.constant(mean)), nodes.constant(spread if spread > 0 else 1.0)
        )
    if gap is None:
        return [value]
    return [nodes.add("Where", gap, nodes.constant(0.0), value), nodes.double(gap)]


def _words(nodes: _Nodes, each: Any) -> list[str]:
    """Return a column of 0 and 1 for each category; an empty word is a gap, and an unknown one is 0 in all."""
    known = [*each.categories, ""] if each.indicated else list(each.categories)
    value = nodes.input(each.name, words=True)
    number = nodes.add(
        "LabelEncoder",
        value,
        domain="ai.onnx.ml",
        keys_strings=known,
        values_int64s=list(range(len(known))),
        default_int64=-1,
    )
    return [nodes.double(nodes.add("Equal", number, nodes.constant(np.arange(len(known))[None, :])))]


def _outputs(nodes: _Nodes, model: Model, x: str, weights: NDArray[np.float64]) -> None:
    several = model.task == "multiclass"
    if several:
        score = nodes.add("MatMul", x, nodes.constant(weights.T), name="score")
        nodes.output(score, "DOUBLE", len(weights))
    else:
        product = nodes.add("MatMul", x, nodes.constant(weights[:, None]))
        score = nodes.add("Squeeze", product, nodes.constant([1]), name="score")
        nodes.output(score, "DOUBLE")
    if model.task == "regression":
        nodes.add("Identity", score, name="label")
        nodes.output("label", "DOUBLE")
        return
    if several:
        number = nodes.add("ArgMax", score, axis=1, keepdims=0)
    else:
        above = nodes.add("Greater", score, nodes.constant(0.0))
        number = nodes.add("Where", above, *map(nodes.constant, (np.int64(1), np.int64(0))))
    classes = model.classes
    words = classes.dtype.kind == "U"
    labels = classes.astype(object) if words else classes.astype(np.int64)
    nodes.add("Gather", nodes.constant(labels), number, axis=0, name="label")
    nodes.output("label", "STRING" if words else "INT64")
    if model.card.objective.name == "softmax":
        nodes.add("Softmax", score, axis=1, name="probability")
        nodes.output("probability", "DOUBLE", len(classes))
    elif model.card.objective.name == "logistic":
        wide = nodes.add("Unsqueeze", score, nodes.constant([1]))
        both = nodes.add("Concat", nodes.add("Mul", wide, nodes.constant(0.0)), wide, axis=1)
        nodes.add("Softmax", both, axis=1, name="probability")
        nodes.output("probability", "DOUBLE", 2)
