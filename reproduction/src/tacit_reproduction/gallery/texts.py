"""The five texts, by the numbers that sources go by: "003 section 5"."""

from __future__ import annotations

from typing import NamedTuple


class Text(NamedTuple):
    """One text."""

    number: str
    title: str
    origin: str


TEXTS = {
    text.number: text
    for text in (
        Text(
            "000",
            "Differentially private online learning for federated optimisation",
            "a dissertation: mirror descent, long-term constraints, moving targets",
        ),
        Text(
            "001",
            "Distributed machine learning for the Internet of Things and cyber-physical systems",
            "a doctoral thesis, F. Gauthier, NTNU: nonsmooth, asynchronous and personalised learning",
        ),
        Text(
            "002",
            "Differentially Private Distributed Online Learning",
            "a paper by C. Li, P. Zhou, G. Chen and T. Jiang",
        ),
        Text(
            "003",
            "Central Server Free Federated Learning over Single-sided Trust Social Networks",
            "a paper submitted to ICLR 2021",
        ),
        Text(
            "004",
            "Multi-agent Learning with Privacy Guarantees",
            "a doctoral thesis, E. Rizk, EPFL 2023: federated and decentralised learning",
        ),
    )
}


def text_of(source: str) -> Text:
    """Return the text that a source names; one that goes beyond a text belongs to it ("beyond 001 ch. 5")."""
    return next(text for number, text in TEXTS.items() if number in source.split())
