"""Linear models as fitted scikit-learn pipelines: an encoder of columns, then a linear estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.core.errors import ConfigError
from tacit.core.extras import require

if TYPE_CHECKING:
    from tacit.models.model import Model
    from tacit.streams import Preprocessing


def pipeline(model: Model, preprocess: bool = True) -> Any:
    """Return a linear model as a pipeline; see `Model.to_sklearn`."""
    make = require("sklearn.pipeline", "data", "an export to scikit-learn").Pipeline
    weights, record = model.weights(), model.preprocessing if preprocess else None
    steps: list[tuple[str, Any]] = []
    width = model.card.features
    if record is not None:
        steps.append(("columns", _columns(record)))
        if record.unit:
            # A one in front, then rows of norm 1: the weight of the ones comes first.
            if record.bias:
                steps.append(("ones", _fitted("preprocessing", "PolynomialFeatures", _blank(width - 1), degree=1)))
                weights = np.roll(weights, 1, axis=-1)
            steps.append(("norm", _fitted("preprocessing", "Normalizer", _blank(width))))
        elif record.bias:
            return make([*steps, ("model", _estimator(model, weights[..., :-1], weights[..., -1]))])
    elif record is None and preprocess and model.card.bias:
        return make([("model", _estimator(model, weights[..., :-1], weights[..., -1]))])
    return make([*steps, ("model", _estimator(model, weights, np.zeros(weights.shape[:-1])))])


def _estimator(model: Model, weights: Any, intercept: Any) -> Any:
    name = model.card.objective.name
    kinds = {"logistic": "LogisticRegression", "softmax": "LogisticRegression", "hinge": "SGDClassifier"}
    made = getattr(require("sklearn.linear_model", "data"), kinds.get(name, "LinearRegression"))()
    made.n_features_in_ = weights.shape[-1]
    if model.task == "regression":
        made.coef_, made.intercept_ = weights, float(intercept)
        return made
    made.coef_, made.intercept_ = np.atleast_2d(weights), np.atleast_1d(intercept)
    made.classes_ = model.classes
    if name == "softmax" and len(made.classes_) == 2:  # of two classes it keeps the difference alone
        made.coef_, made.intercept_ = np.diff(weights, axis=0), np.diff(intercept)
    return made


def _columns(record: Preprocessing) -> Any:
    """Return a transformer of a frame's columns, fitted to one that has all categories and a gap where there may be."""
    pandas = require("pandas", "data", "an export to scikit-learn")
    compose = require("sklearn.compose", "data")
    scales = {scale.column: scale for scale in record.scales}
    if record.by_owner:
        raise ConfigError(
            "columns are scaled by each owner's own numbers, which no scikit-learn pipeline expresses; export rows of "
            "x: model.to_sklearn(preprocess=False)"
        )
    parts, frame = [], {}
    for each in record.inputs:
        if each.kind == "word":
            parts.append((each.name, _words(each), [each.name]))
            frame[each.name] = [each.categories[0], np.nan if each.indicated else each.categories[0]]
        elif each.kind == "number":
            parts.append((each.name, _numbers(each, scales.get(each.name)), [each.name]))
            frame[each.name] = [0.0, np.nan if each.indicated else 1.0]
        else:
            raise ConfigError(
                f"column {each.name!r} is of kind {each.kind!r}, which no scikit-learn pipeline expresses; export rows "
                "of x: model.to_sklearn(preprocess=False)"
            )
    made = compose.ColumnTransformer(parts, verbose_feature_names_out=False, sparse_threshold=0.0)
    made.fit(pandas.DataFrame(frame))
    for name, fitted, _ in made.transformers_:
        if name in scales:
            _set_scale(fitted[0], *scales[name].numbers[0], scales[name].by == "bounds")
    return made


def _words(each: Any) -> Any:
    """Return an encoder of words; a gap is a category of its own, the last."""
    encoder = require("sklearn.preprocessing", "data").OneHotEncoder
    known = [*each.categories, np.nan] if each.indicated else list(each.categories)
    return encoder(categories=[np.array(known, object)], handle_unknown="error", sparse_output=False)


def _numbers(each: Any, scale: Any) -> Any:
    """Return a scaler, and a column that says where a gap was, which is 0 afterwards."""
    tools = require("sklearn.preprocessing", "data")
    if scale is None:
        scaler = tools.FunctionTransformer(feature_names_out="one-to-one")
    elif scale.by == "bounds":
        scaler = tools.MinMaxScaler(feature_range=(-1, 1), clip=True)
    else:
        scaler = tools.StandardScaler()
    steps = [("scale", scaler)]
    if each.indicated:
        imputer = require("sklearn.impute", "data").SimpleImputer
        steps.append(("gaps", imputer(strategy="constant", fill_value=0.0, add_indicator=True)))
    return require("sklearn.pipeline", "data").Pipeline(steps)


def _set_scale(scaler: Any, first: float, second: float, bounds: bool) -> None:
    """Give a fitted scaler the very numbers of the model."""
    if bounds:
        scaler.data_min_, scaler.data_max_ = np.array([first]), np.array([second])
        scaler.data_range_ = scaler.data_max_ - scaler.data_min_
        scaler.scale_ = 2 / scaler.data_range_
        scaler.min_ = -1 - scaler.data_min_ * scaler.scale_
    else:
        scaler.mean_ = np.array([first])
        scaler.scale_ = np.array([second if second > 0 else 1.0])
        with np.errstate(over="ignore"):  # which only says how it was fitted
            scaler.var_ = np.square(scaler.scale_)


def _fitted(module: str, name: str, rows: Any, **settings: Any) -> Any:
    made: Any = getattr(require(f"sklearn.{module}", "data"), name)(**settings)
    return made.fit(rows)


def _blank(width: int) -> Any:
    return np.zeros((1, width))
