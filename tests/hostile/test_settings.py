"""Settings beyond all bounds and of every wrong kind: an error that names them, never a traceback."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import tacit
from tacit.config.job import load_job
from tacit.core import limits
from tacit.core.errors import ConfigError, TacitError
from tacit.experiments import build, load, parse
from tests.deploy.homes import job_text
from tests.hostile import settings
from tests.hostile.refusals import refusal


def with_key(section: str, **changed: Any) -> str:
    document = copy.deepcopy(dict(settings.BASE))
    document[section] = {**document[section], **changed}
    return tomli_w.dumps(document)


def built(text: str) -> Any:
    return build(parse(text, Path("hostile.toml")))


def test_values_that_nobody_meant_are_refused_and_no_traceback(tmp_path: Path) -> None:
    """A few hundred of the cases of `python -m tests.hostile.settings`, which tries out all."""
    folder = settings.prepare(tmp_path)
    faults = [fault for case in settings.sample(250, seed=16) if (fault := case.fault(folder)) is not None]
    assert faults == []


@pytest.mark.parametrize("section", ["graph", "stream", "objective"])
@pytest.mark.parametrize("kind", [[], {}, ["ring"], 3, True])
def test_a_kind_that_is_no_name(section: str, kind: Any) -> None:
    assert f"[{section}] kind" in refusal(built, with_key(section, kind=kind))


@pytest.mark.parametrize("rounds", [10**18, 2**31 - 1, 2**31 - 2, 10**9])
def test_rounds_without_end(rounds: int) -> None:
    words = refusal(lambda: next(built(with_key("run", rounds=rounds)).runs(progress=False)))
    assert "rounds" in words
    assert f"{limits.MOST_ROUNDS}" in words or "4.0 GiB" in words


@pytest.mark.parametrize(
    "asked",
    [{"rounds": 10**18}, {"rounds": 10**9}, {"rounds": 1, "repeats": 10**12}, {"rounds": 1, "repeats": 5 * 10**6}],
)
def test_rounds_and_repeats_without_end_in_python(asked: dict[str, int]) -> None:
    graph, stream = tacit.graphs.ring(5), tacit.streams.logistic_drift(5, 3)
    method = tacit.algorithms.online_push_sum(tacit.objectives.logistic())
    words = refusal(tacit.simulate, method, lambda seed: graph, lambda seed: stream, **asked)
    assert any(str(value) in words.replace(",", "") for value in asked.values())


SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "agents": ("graph", {"agents": 10**12}),
    "dim": ("stream", {"dim": 10**9}),
    "batch": ("stream", {"batch": 10**9}),
    "heterogeneity": ("stream", {"dim": 10**8, "heterogeneity": 1.0}),
    "samples": ("stream", {"kind": "autoregressive", "samples": [10**9]}),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_beyond_memory(name: str) -> None:
    section, changed = SIZES[name]
    if changed.get("kind"):
        changed = {**changed, "dim": None}
    document = {**settings.BASE[section], **changed}
    text = tomli_w.dumps({**settings.BASE, section: {k: v for k, v in document.items() if v is not None}})
    words = refusal(built, text)
    assert f"[{section}]" in words
    assert "limit" in words or "at most" in words


@pytest.mark.parametrize(
    "objective",
    [tacit.objectives.softmax(classes=10**9), tacit.objectives.fourier(count=10**10)],
    ids=["softmax", "fourier"],
)
def test_models_beyond_memory(objective: Any) -> None:
    graph, stream = tacit.graphs.ring(5), tacit.streams.linear_drift(5, 3)
    words = refusal(tacit.simulate, tacit.algorithms.online_push_sum(objective), graph, stream, rounds=1)
    assert "GiB" in words


def test_messages_that_are_late_without_end() -> None:
    text = with_key("run", channel={"delay": {"longest": 10**9}})
    assert "longest" in refusal(built, text)


@pytest.mark.parametrize("key", ["features", "batch"])
def test_jobs_beyond_memory(tmp_path: Path, key: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(job_text(**{key: 2 * 10**9}))
    assert key in refusal(load_job, path)


TEXTS = {
    "a number of five thousand digits": f"[run]\nrounds = {'9' * 5000}\n",
    "lists in lists": f"[run]\nrounds = {'[' * 20_000}{']' * 20_000}\n",
    "bytes that are no text": b"\xff\xfe",
}


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize("read", [load, load_job], ids=["experiment", "job"])
def test_texts_that_are_no_settings(tmp_path: Path, what: str, read: Any) -> None:
    path, text = tmp_path / "hostile.toml", TEXTS[what]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert "hostile.toml" in refusal(read, path)


@pytest.mark.parametrize("read", [load, load_job], ids=["experiment", "job"])
def test_a_file_of_settings_without_end(tmp_path: Path, read: Any) -> None:
    path = tmp_path / "hostile.toml"
    with path.open("wb") as file:
        file.truncate(50 * 2**30)
    assert f"{50 * 2**30:,}" in refusal(read, path)


def test_a_key_raises_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    small = 1e-5  # 10 KB, which this graph is above
    with limits.memory(small), pytest.raises(TacitError, match="limit"):
        tacit.graphs.ring(1000)
    monkeypatch.setenv(limits.VARIABLE, str(small))
    with pytest.raises(TacitError, match="limit"):
        tacit.graphs.ring(1000)
    with limits.memory(1):
        assert tacit.graphs.ring(1000).edges == 2000
    many = with_key("graph", agents=1000)
    with pytest.raises(TacitError, match="limit"):
        built(many)
    document = copy.deepcopy(dict(settings.BASE))
    document["run"]["memory"], document["graph"]["agents"] = 1.0, 1000
    assert built(tomli_w.dumps(document)).graph(0).agents == 1000
    monkeypatch.setenv(limits.VARIABLE, "much")
    with pytest.raises(ConfigError, match=limits.VARIABLE):
        tacit.graphs.ring(3)
