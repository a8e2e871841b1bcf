"""The common part of the online learners: settings, columns, the agent behind them, and river's interface."""

from __future__ import annotations

import copy
import inspect
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.algorithms import find
from tacit.core.contract import Algorithm, Mechanism, Objective, Params
from tacit.core.errors import ConfigError, DataError, TacitWarning
from tacit.core.extras import require
from tacit.interop.agents import Agent
from tacit.interop.compiled_agent import CompiledAgent, may_wait
from tacit.interop.feature_columns import FeatureColumns
from tacit.interop.objectives import resolved
from tacit.interop.solo import SoloAgent
from tacit.privacy.spending import RunPrivacy
from tacit.streams.batch import Task


class OnlineLearner(ABC):
    """Common part of both learners."""

    _river: ClassVar[str]
    """River's class of such learners."""
    _supervised, _multiclass, _is_stochastic = True, False, False

    def __init__(
        self,
        algorithm: str = "online_push_sum",
        *,
        parameters: Mapping[str, Any] | None = None,
        objective: str | Objective | None = None,
        mechanism: Mechanism | None = None,
        features: Sequence[Hashable] | int = 32,
        seed: int = 0,
    ) -> None:
        self.algorithm, self.parameters, self.objective = algorithm, parameters, objective
        self.mechanism, self.features, self.seed = mechanism, features, seed
        self._columns = FeatureColumns(features)
        self._agent: Agent | None = None
        self._saved: list[Any] | None = None
        """State of an agent that is made again when it is needed."""
        self._told = False
        """Whether it was said that the model is lost."""
        self._introduce()

    @property
    def privacy(self) -> RunPrivacy:
        """Privacy promised and spent; that of a `peer` is in its ledger."""
        return self._running().privacy

    @property
    def peer(self) -> Any:
        """The running `tacit.Peer` of a learner that has joined."""
        found = getattr(self._agent, "peer", None)
        if found is None:
            raise ConfigError("this learner learns alone and has no peer; make it with join('peer.toml', ...)")
        return found

    def close(self) -> None:
        """Stop the peer of a learner that has joined."""
        if self._agent is not None:
            self._agent.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def clone(self, new_params: Mapping[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Return a learner of the same settings that has learnt nothing.

        Args:
          new_params: Settings to replace.
          include_attributes: Whether it has learnt what this one has; settings then stay as they are.
        """
        if include_attributes:
            if new_params:
                raise ConfigError(
                    f"new_params={dict(new_params)!r}: what was learnt belongs to its settings; leave out"
                )
            return copy.deepcopy(self)
        return type(self)(**{**self._get_params(), **(new_params or {})})

    def __repr__(self) -> str:
        given = {name: value for name, value in self._get_params().items() if value is not None}
        shown = (f"{name}={getattr(value, 'name', None) or repr(value)}" for name, value in given.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __copy__(self) -> Self:
        """Return one that shares nothing with this: names that one of them meets are not the other's."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return settings and what was learnt as arrays; programs are compiled again."""
        state = self.__dict__.copy()
        agent = state.pop("_agent")
        if isinstance(agent, CompiledAgent):
            state["_saved"] = agent.state
        elif agent is not None:
            raise ConfigError(
                "this learner cannot be copied: its releases are booked, or it is a peer, and a copy would release the "
                "same records once more; clone() gives one that has learnt nothing"
            )
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _agent=None)
        self._introduce()

    # -- interface of river -------------------------------------------------------------------------------------------

    def _get_params(self) -> dict[str, Any]:
        names = inspect.signature(type(self).__init__).parameters
        return {name: copy.copy(getattr(self, name)) for name in names if name != "self"}

    def mutate(self, new_attrs: Mapping[str, Any]) -> None:
        """Change nothing: a learner's settings stay.

        Args:
          new_attrs: Attributes to change, as river has it; only none is taken.
        """
        if new_attrs:
            raise ConfigError(f"{sorted(new_attrs)} cannot be changed in a learner; clone it with other settings")

    @property
    def _tags(self) -> set[str]:
        return set()

    @property
    def _mutable_attributes(self) -> set[str]:
        return set()

    @property
    def _raw_memory_usage(self) -> int:
        """Bytes, as river counts them."""
        found: int = sys.modules["river.base"].Base._raw_memory_usage.fget(self)
        return found

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    def _unit_test_skips(self) -> set[str]:
        return set()

    def _more_tags(self) -> set[str]:
        return set()

    def _introduce(self) -> None:
        """Tell river, where it is loaded, that this is one of its learners: it asks by isinstance."""
        base = sys.modules.get("river.base")
        if base is not None:
            getattr(base, self._river).register(type(self))

    # ------------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _task(self) -> tuple[Task, int]:
        """Task, and number of classes."""

    def _objective(self) -> Objective:
        found = getattr(self._agent, "objective", None) or resolved(self.objective, *self._task())
        if found.predict is None:
            raise ConfigError(f"objective {found.name!r} does not say what it predicts; give it `predict`")
        return found

    def _made(self) -> Algorithm:
        settings = dict(self.parameters or {})
        if self.mechanism is not None:
            settings["mechanism"] = self.mechanism
        try:
            return find(self.algorithm).constructor(self._objective(), **settings)
        except TypeError as error:
            raise ConfigError(f"algorithm {self.algorithm!r} with {sorted(settings)}: {error}") from error

    def _running(self) -> Agent:
        if self._agent is None:
            self._agent = self._new_agent(None)
            if self._saved is not None and isinstance(self._agent, CompiledAgent):
                self._agent.restore(self._saved)
            self._saved = None
        return self._agent

    def _says(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """Return what the model says of a sample."""
        return self._finite(self._running().output(self._columns.row(x, learn=False)))

    def _says_of_each(self, X: Any) -> NDArray[np.float64]:
        """Return what the model says of each row of a table that has one at least."""
        return self._finite(self._running().output_many(self._columns.rows(X, learn=False)))

    def _finite(self, said: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a model says, having warned once where that is no number any more."""
        if not self._told and not np.isfinite(said).all():
            self._told = True
            warnings.warn(
                f"{self!r} has diverged: what it predicts is no finite number; take a smaller step, or scale the "
                "features before they are learnt (in river: StandardScaler() | learner)",
                TacitWarning,
                stacklevel=4,
            )
        return said

    def _new_agent(self, start: Params | None) -> Agent:
        """Make the agent; whoever promises nothing may begin with given parameters."""
        label = np.int32 if self._task()[0] == "multiclass" else np.float32
        made = self._made()
        self._refuse_learnt(made)
        if may_wait(made):
            return CompiledAgent(made, self._columns.width, label, self.seed, start)
        return SoloAgent(made, self._columns.width, label, self.seed)

    def _refuse_learnt(self, algorithm: Algorithm) -> None:
        """Refuse a method that promises privacy where one sample would decide what the numbers of others mean."""
        if algorithm.privacy.private and self._columns.open:
            raise ConfigError(
                f"features={self.features!r}: names would get their columns as samples bring them, and "
                f"{algorithm.name!r} promises privacy; name them: features=[...]"
            )

    def _frames(self, what: str, X: Any) -> Any:
        """Return pandas, in whose frames many samples come and go; refuse what is no frame."""
        pandas = require("pandas", "data", f"{type(self).__name__}.{what}")
        if not isinstance(X, pandas.DataFrame):
            raise DataError(f"X is of type {type(X).__name__}; expected a pandas DataFrame, one column per feature")
        return pandas

    def _joined(self, path: str | os.PathLike[str], task: Task) -> None:
        from tacit.interop.joined import JoinedPeer

        self._columns = FeatureColumns(self.features, ones=False)  # the peer adds its own column of ones
        if self._columns.open:
            raise ConfigError(
                f"features={self.features!r}: a peer's columns are those of its job; name them in its order"
            )
        joined = JoinedPeer(path)
        form = joined.peer.settings.job.form
        if (form.features, form.task) != (self._columns.size, task):
            joined.close()
            raise ConfigError(
                f"{path}: the job has {form.features} features and the task {form.task!r}, this learner "
                f"{self._columns.size} and {task!r}; name the job's features in their order, and use the other learner "
                "for another task"
            )
        self._agent = joined
