"""The five texts and their citations, e.g. "OPS paper, sec. 5"; docs/bibliography.md has them in full."""

from __future__ import annotations

from typing import NamedTuple


class Text(NamedTuple):
    """One text."""

    key: str
    """In the bibliography."""
    cited: str
    """In running text, before the section."""
    title: str
    origin: str


TEXTS = {
    text.key: text
    for text in (
        Text(
            "Dis",
            "Dissertation",
            "Differentially private online learning for federated optimisation",
            "a dissertation: mirror descent, long-term constraints, moving targets",
        ),
        Text(
            "Gauthier",
            "Gauthier (2023)",
            "Distributed machine learning for the Internet of Things and cyber-physical systems",
            "a doctoral thesis, F. Gauthier, NTNU: nonsmooth, asynchronous and personalised learning",
        ),
        Text(
            "Li",
            "Li et al.",
            "Differentially Private Distributed Online Learning",
            "a paper by C. Li, P. Zhou, G. Chen and T. Jiang",
        ),
        Text(
            "OPS",
            "OPS paper",
            "Central Server Free Federated Learning over Single-sided Trust Social Networks",
            "a paper submitted to ICLR 2021: online push-sum",
        ),
        Text(
            "Rizk",
            "Rizk (2023)",
            "Multi-agent Learning with Privacy Guarantees",
            "a doctoral thesis, E. Rizk, EPFL 2023: federated and decentralised learning",
        ),
    )
}


def text_of(source: str) -> Text:
    """Return the text that a source cites; "beyond Gauthier (2023), ch. 5" belongs to Gauthier (2023) too."""
    return next(text for text in TEXTS.values() if text.cited in source)
