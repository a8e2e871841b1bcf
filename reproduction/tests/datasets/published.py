"""What a publisher's server answers, which files that left behind, and what is said where data cannot be had."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tacit_reproduction.datasets import fetch as datasets


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where the data set is not on this machine, saying where it was looked for."""
    return pytest.mark.skipif(not datasets.available(name), reason=datasets.where(name))


def serve(monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception) -> list[str]:
    """Let every address answer with this; returns the list of those that are asked."""
    asked: list[str] = []

    def open_url(url: str) -> io.BytesIO:
        asked.append(url)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(datasets, "open_url", open_url)
    return asked


def files_under(folder: Path) -> set[str]:
    """Names of all files in a folder and below."""
    return {path.name for path in folder.rglob("*") if path.is_file()}


def says_where_it_looked(refusal: Exception, nowhere: Path, *words: str) -> None:
    """Fail where a refusal leaves out one of the two folders, the network's answer, the remedy, or one of the words."""
    for expected in (str(nowhere / "data"), str(nowhere / "cache" / "tacit"), "no route", "set TACIT_DATA", *words):
        assert expected in str(refusal)
