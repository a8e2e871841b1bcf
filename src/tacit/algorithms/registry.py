"""Registry of methods: names, titles, sources and constructors, for the command line, files and the contract tests.

A method of this package is imported when its entry is asked for, so that a peer imports the one method of its job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from tacit.core.contract import Algorithm, Objective
from tacit.core.errors import ConfigError, nearest

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "online_push_sum": "push_sum.online_push_sum",
        "loss_tolerant_push_sum": "push_sum.loss_tolerant_push_sum",
        "centralised_online": "averaging.averaging",
        "decentralised_symmetric": "averaging.averaging",
        "decentralised_asymmetric": "averaging.averaging",
        "local_online": "averaging.averaging",
        "distributed_online": "averaging.distributed_online",
        "distributed_minibatch": "averaging.distributed_online",
        "diffusion": "averaging.diffusion",
        "consensus": "averaging.diffusion",
        "combine_then_adapt": "averaging.diffusion",
        "adapt_then_combine": "averaging.diffusion",
        "choco_sgd": "averaging.choco_sgd",
        "mirror_descent": "mirror.mirror_descent",
        "dynamic_mirror_descent": "mirror.dynamic_mirror_descent",
        "constrained_mirror_descent": "mirror.constrained_mirror_descent",
        "lagrangian_descent": "mirror.lagrangian_descent",
        "private_admm": "admm.private_admm",
        "zcdp_admm": "admm.zcdp_admm",
        "dp_admm": "admm.zcdp_admm",
        "zcdp_subgradient": "admm.zcdp_subgradient",
        "fedavg": "federated.fedavg",
        "importance_fedavg": "federated.importance_fedavg",
        "graph_federated": "federated.graph_federated",
        "fedprox": "federated.fedprox",
        "scaffold": "federated.scaffold",
        "fedavgm": "federated.server_optimiser",
        "fedadam": "federated.server_optimiser",
        "online_fedsgd": "asynchronous.online_federated",
        "online_fed": "asynchronous.online_federated",
        "pso_fed": "asynchronous.online_federated",
        "pao_fed": "asynchronous.pao_fed",
        "partial_diffusion": "asynchronous.partial_diffusion",
        "sign_sgd": "asynchronous.sign_sgd",
        "personalised_graph_federated": "personalised.personalised_graph_federated",
        "clustered_federated": "personalised.personalised_graph_federated",
        "networked_personalised": "personalised.networked_personalised",
        "decentralised_momentum": "momentum.local_momentum",
        "quasi_global_momentum": "momentum.quasi_global_momentum",
        "gradient_tracking": "tracking.gradient_tracking",
        "push_diging": "tracking.push_diging",
        "extra": "tracking.extra",
        "exact_diffusion": "tracking.exact_diffusion",
    }
)
"""Methods of this package, by family -> the module that registers each."""


class Entry(NamedTuple):
    """One registered method."""

    name: str
    """Its name in files and commands."""
    source: str
    """Text and place, e.g. "OPS paper, Alg. 1"."""
    constructor: Callable[..., Algorithm]
    """Objective and settings -> the method."""
    example_settings: Mapping[str, Any] = MappingProxyType({})
    """Values for the parameters that have no default, so that there is an example to show and to try."""
    title: str = ""
    """Its name in tables and figures, e.g. "Online push-sum (OPS)"."""

    def example(self, objective: Objective, **settings: Any) -> Algorithm:
        """Return the method for an objective, with example values for what is not given.

        Args:
          objective: Loss to be learnt.
          **settings: Parameters of the constructor, in place of the example's.
        """
        return self.constructor(objective, **{**self.example_settings, **settings})

    @property
    def summary(self) -> str:
        """First line of the constructor's docstring."""
        return (self.constructor.__doc__ or "").strip().splitlines()[0]


class Registry(MutableMapping[str, Entry]):
    """Name -> method, in the order of the table and then of registration; a method is imported when it is asked for.

    Example:
      >>> from tacit.algorithms import REGISTRY
      >>> "fedavg" in REGISTRY  # imports nothing
      True
      >>> REGISTRY["fedavg"].title
      'Federated averaging (FedAvg)'
    """

    def __init__(self, modules: Mapping[str, str] = MappingProxyType({})) -> None:
        self._entries: dict[str, Entry | str] = dict(modules)

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of a name, whose module is imported if need be."""
        found = self._entries[name]
        if isinstance(found, str):
            import_module(found)
            found = self._entries[name]
            assert isinstance(found, Entry)  # its module registers it
        return found

    def __setitem__(self, name: str, entry: Entry) -> None:
        """Register; another's method under a name of the package comes after the package's own, and stays."""
        found = self._entries.get(name)
        if isinstance(found, str) and entry.constructor.__module__ != found:
            import_module(found)
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        """Forget a method, for good: its module has registered it before."""
        del self._entries[self[name].name]

    def __contains__(self, name: object) -> bool:
        """Return whether there is a method of that name, without importing it."""
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of methods."""
        return len(self._entries)

    def __repr__(self) -> str:
        """Return the names."""
        return f"Registry({', '.join(self)})"


REGISTRY: MutableMapping[str, Entry] = Registry({name: f"{__package__}.{module}" for name, module in METHODS.items()})
"""Name -> method, of the package and of all that were registered since."""


def register(
    source: str, example: Mapping[str, Any] = MappingProxyType({}), title: str = ""
) -> Callable[[Callable[..., Algorithm]], Callable[..., Algorithm]]:
    """Register a constructor under its own name: the decorator of every method.

    A configuration is checked by the types of the parameters: annotate them all to use the method from a file.

    Args:
      source: Text and place, e.g. "Rizk (2023), Alg. 2.1".
      example: Values for the parameters that have no default.
      title: Name in tables and figures; by default the constructor's name with blanks.

    Returns:
      A decorator that returns the constructor as it is.

    Example:
      >>> from tacit.algorithms import REGISTRY, consensus, register
      >>> @register("own work", title="Slow consensus")
      ... def slow_consensus(objective, step=0.001):
      ...     return consensus(objective, step)
      >>> REGISTRY.pop("slow_consensus").title
      'Slow consensus'
    """

    def add(constructor: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
        name = constructor.__name__
        REGISTRY[name] = Entry(name, source, constructor, example, title or name.replace("_", " ").strip())
        return constructor

    return add


def find(name: str) -> Entry:
    """Return the entry of a name.

    Args:
      name: A key of `REGISTRY`.

    Returns:
      The entry, with the constructor; its module is imported.

    Raises:
      ConfigError: There is no such method; the message lists the names.

    Example:
      >>> import tacit
      >>> tacit.algorithms.find("online_push_sum").constructor.__name__
      'online_push_sum'
    """
    if name not in REGISTRY:
        raise ConfigError(
            f"unknown algorithm {name!r}; {nearest(name, REGISTRY)}expected one of: {', '.join(sorted(REGISTRY))}"
        )
    return REGISTRY[name]
