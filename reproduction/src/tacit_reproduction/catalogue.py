"""List of the studies, text by text and in each text's own order."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from tacit_reproduction.study import Study


class Text(NamedTuple):
    """One of the five texts; docs/bibliography.md has them in full."""

    key: str
    cited: str  # in running text, before the section
    title: str
    origin: str
    studies: tuple[str, ...]  # "module:NAME" of each


TEXTS = (
    Text(
        "ops", "OPS paper", "Central Server Free Federated Learning over Single-sided Trust Social Networks",
        "a paper submitted to ICLR 2021: online push-sum",
        ("push_sum:OCCUPANCY", "push_sum:SUSY")),
    Text(
        "li", "Li et al.", "Differentially Private Distributed Online Learning",
        "a paper by C. Li, P. Zhou, G. Chen and T. Jiang",
        ("synthetic:STUDY", "rcv1:STUDY", "minibatch:STUDY")),
    Text(
        "dissertation", "Dissertation", "Differentially private online learning for federated optimisation",
        "a dissertation: mirror descent, long-term constraints, moving targets",
        ("three_clients:STUDY", "constrained:STUDY", "lagrangian:STUDY", "dynamic:STUDY", "mnist:STUDY")),
    Text(
        "gauthier", "Gauthier (2023)",
        "Distributed machine learning for the Internet of Things and cyber-physical systems",
        "a doctoral thesis, F. Gauthier, NTNU: nonsmooth, asynchronous and personalised learning",
        ("zcdp:ELASTIC_NET", "zcdp:LAD", "zcdp:RIDGE", "pao_variants:STUDY", "pao_baselines:STUDY",
         "pao_environments:STUDY", "pao_calcofi:STUDY", "pao_theory:STUDY", "pgfl_regression:STUDY",
         "pgfl_images:MNIST", "pgfl_images:ORGAN", "pgfl_discovery:STUDY", "npfl:STUDY")),
    Text(
        "rizk", "Rizk (2023)", "Multi-agent Learning with Privacy Guarantees",
        "a doctoral thesis, E. Rizk, EPFL 2023: federated and decentralised learning",
        (
            "importance_regression:STUDY", "importance_ijcnn1:STUDY", "fedavg_private:STUDY", "gfl_regression:STUDY",
            "gfl_classification:STUDY", "diffusion_regression:STUDY", "diffusion_ijcnn1:STUDY")))  # fmt: skip


def studies(text: Text) -> list[Study]:
    """Return the studies of a text."""
    places = (place.partition(":") for place in text.studies)
    return [getattr(import_module(f"tacit_reproduction.{text.key}.{module}"), name) for module, _, name in places]


def all_studies() -> Mapping[str, Study]:
    """Return every study by its name."""
    return {study.name: study for text in TEXTS for study in studies(text)}
