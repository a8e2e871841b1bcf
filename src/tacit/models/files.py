"""Model files: a safetensors file with the card in its header, put in place whole and read with every check."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tacit.core.contract import Objective, Params
from tacit.core.errors import ConfigError, ModelError, TacitError
from tacit.metrics.held_out import TASKS
from tacit.models import card as cards
from tacit.models.card import Card
from tacit.models.model import Model
from tacit.models.objective_names import leaf_names, like, made
from tacit.models.tensor_file import packed, read_bytes, strict_json, unpacked

MODEL = "model.safetensors"
"""Name of the file in the directory of a run."""
CARD, KIND = "card", "tacit model"
MEAN, OWNED = "default.", "owners."
"""Beginnings of the names of arrays: parameters that predict by default, and those of all owners."""


def model_bytes(model: Model) -> bytes:
    """Return the file of a model."""
    arrays = {**_flat(model.params, MEAN), **({} if model.owned is None else _flat(model.owned, OWNED))}
    text = json.dumps(model.card.model_dump(mode="json"), sort_keys=True, allow_nan=False)
    return packed(arrays, {"format": KIND, CARD: text})


def save(model: Model, path: Path, force: bool = False) -> Path:
    """Write a model's file."""
    return put_file(path, model_bytes(model), force)


def put_file(path: Path, content: bytes, force: bool = False) -> Path:
    """Write a file so that it is there whole or not at all; one that is there is only replaced where that is asked."""
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {path.parent}; make it, or name another place")
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).chmod(0o666 & ~_umask())
        if force:
            Path(draft).replace(path)
        else:
            os.link(draft, path)  # which fails where there is a file already, however late it came
    except FileExistsError:
        raise ConfigError(f"{path} is there already, and is not overwritten; name another file, or say force") from None
    finally:
        Path(draft).unlink(missing_ok=True)
    return path


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def load_model(path: str | os.PathLike[str], objective: Objective | None = None) -> Model:
    """Read a model: a file that `Model.save` or `tacit run` wrote, or the directory of a run.

    Nothing in the file is executed. Sizes, names, types, versions and the card are checked first, and a file that was
    damaged or made up is refused with the place.

    Args:
      path: The file, or a directory that holds ``model.safetensors``.
      objective: Code of an objective of your own, of which the file has the name alone; None: one of tacit's.

    Returns:
      The model.

    Raises:
      ModelError: It cannot be used, and why.

    Example:
      >>> import numpy as np, pathlib, tempfile, tacit
      >>> ops = tacit.algorithms.online_push_sum(tacit.objectives.logistic(), step=0.3)
      >>> run = tacit.simulate(ops, tacit.graphs.ring(4), tacit.streams.logistic_drift(4, 3), rounds=20)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = run.model().save(pathlib.Path(folder) / "model.safetensors")
      ...     model = tacit.load_model(file)
      >>> bool(np.allclose(model.predict_proba(np.ones((1, 3))), run.model().predict_proba(np.ones((1, 3)))))
      True
    """
    place = Path(path)
    if place.is_dir():
        place = _in_directory(place)
    return model_of(read_bytes(place), str(place), objective)


def _in_directory(folder: Path) -> Path:
    """Return the model of a run's directory; one with several runs is refused, with their names."""
    if (folder / MODEL).exists():
        return folder / MODEL
    inside = sorted(each.parent.name for each in folder.glob(f"*/{MODEL}"))
    if inside:
        several = ", ".join(str(folder / name) for name in inside[:8])
        raise ModelError(f"{folder} holds the models of several runs; name one: {several}")
    raise ModelError(f"{folder}: there is no {MODEL} in it; name a model's file, or a directory that `tacit run` wrote")


def model_of(content: bytes, name: str, objective: Objective | None = None) -> Model:
    """Return the model in the bytes of a file, which is `name` in messages."""
    arrays, metadata = unpacked(content, name)
    if metadata.get("format") != KIND or CARD not in metadata:
        raise ModelError(f"{name}: a safetensors file, but no model of tacit: it has no card; name another file")
    card = cards.checked(strict_json(metadata[CARD], name), name)
    function = objective if card.objective.own else made(card.objective.name, card.objective.arguments)
    if objective is not None and not card.objective.own:
        raise ConfigError(f"{name}: its objective is tacit's {card.objective.name!r}; leave `objective` out")
    params = _tree({key: array for key, array in arrays.items() if key.startswith(MEAN)}, MEAN, function, card, name)
    own = {key: array for key, array in arrays.items() if key.startswith(OWNED)}
    owned = None
    if own or card.owners:
        if any(array.shape[:1] != (len(card.owners),) for array in own.values()) or not card.owners:
            raise ModelError(f"{name}: arrays of other sizes than its {len(card.owners)} owners")
        _tree({key: array[0] for key, array in own.items()}, OWNED, function, card, name)
        owned = jax.tree.unflatten(jax.tree.structure(params), [own[OWNED + key] for key in leaf_names(params)])
    if len(own) + len(jax.tree.leaves(params)) != len(arrays):
        raise ModelError(f"{name}: arrays that no card speaks of; it was written by another program")
    model = Model(params, owned, function, card)
    _check_fit(model, name)
    return model


def _tree(arrays: dict[str, NDArray[Any]], prefix: str, objective: Objective | None, card: Card, name: str) -> Params:
    """Return arrays as the parameters of an objective, whose names and shapes they must have."""
    found = {key.removeprefix(prefix): array for key, array in arrays.items()}
    if objective is None:
        if not found:
            raise ModelError(f"{name}: it holds no parameters")
        return dict(sorted(found.items()))
    form = like(objective, card.features)
    wanted = dict(zip(leaf_names(form), (leaf.shape for leaf in jax.tree.leaves(form)), strict=True))
    there = {key: array.shape for key, array in found.items()}
    if there != wanted:
        raise ModelError(
            f"{name}: parameters {str(there)[:200]}, but {card.objective.name!r} of {card.features} features has "
            f"{str(wanted)[:200]}"
        )
    if any(array.dtype.kind != "f" for array in found.values()):
        raise ModelError(f"{name}: parameters that are whole numbers; expected floating ones")
    return jax.tree.unflatten(jax.tree.structure(form), [found[key] for key in wanted])


def _check_fit(model: Model, name: str) -> None:
    """Refuse a card whose parts contradict each other."""
    card = model.card
    if len(set(card.owners)) < len(card.owners):
        raise ModelError(f"{name}: its card names an owner twice")
    if not card.objective.own and card.task != TASKS[card.objective.name]:
        raise ModelError(f"{name}: its card has the task {card.task!r} for {card.objective.name!r}")
    if card.task == "multiclass" and not card.objective.own:
        outputs = len(np.asarray(jax.tree.leaves(model.params)[-1]))
        wanted = {0, outputs}
    else:
        wanted = {0, 2} if card.task == "binary" else {0}
    if not card.objective.own and (len(card.classes) not in wanted or len(set(card.classes)) < len(card.classes)):
        raise ModelError(
            f"{name}: its card has {len(card.classes)} classes, which does not fit {card.objective.name!r}"
        )
    try:
        record = model.preprocessing
    except TacitError as error:
        raise ModelError(f"{name}: {error}") from error
    if record is not None and (len(record.columns) != card.features or card.bias):
        raise ModelError(f"{name}: its card makes {len(record.columns)} columns for {card.features} features")


def _flat(params: Params, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a tree by name."""
    return {
        prefix + key: np.asarray(leaf) for key, leaf in zip(leaf_names(params), jax.tree.leaves(params), strict=True)
    }
