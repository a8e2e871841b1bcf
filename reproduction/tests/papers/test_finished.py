from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tacit_reproduction import finished


@pytest.mark.parametrize("partial", [False, True])
def test_an_interrupted_run_ends_the_experiment(monkeypatch: pytest.MonkeyPatch, partial: bool) -> None:
    asked: list[tuple[Any, Any]] = []

    def simulate(*problem: Any, **settings: Any) -> SimpleNamespace:
        asked.append((problem, settings))
        return SimpleNamespace(partial=partial)

    monkeypatch.setattr(finished, "simulate", simulate)
    if partial:
        with pytest.raises(KeyboardInterrupt):
            finished.finished_run("method", "graph", "stream", rounds=3)
    else:
        assert not finished.finished_run("method", "graph", "stream", rounds=3).partial
    assert asked == [(("method", "graph", "stream"), {"rounds": 3, "progress": False})]
