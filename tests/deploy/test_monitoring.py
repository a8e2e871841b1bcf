"""Files for Prometheus and Grafana: they name metrics that peers export, and every alert fires when it should."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from importlib import resources

import pytest

from tacit.cli import main
from tacit.peer.observing.report import MADE_OF_DATA
from tacit.peer.operations.counters import FIXED_LABELS, METRICS
from tests.board.fleets import Fleet
from tests.deploy.homes import free_ports

FILES = resources.files("tacit.deploy") / "monitoring"
ALERTS, DASHBOARD = (FILES / "alerts.yaml").read_text(), json.loads((FILES / "dashboard.json").read_text())
NAMES = {metric.name for metric in METRICS}
LABELS = {"instance", "job", *(label for metric in METRICS for label in metric.labels)}
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")

PEER = 'job="tacit a", instance="a"'
FIRES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "TacitPeerDown": ({f"up{{{PEER}}}": "1x10 0x200"}, {"job": "tacit a"}),
    "TacitRoundsEnded": ({f"tacit_failed{{{PEER}}}": "0x10 1x200"}, {"job": "tacit a"}),
    "TacitRoundStandsStill": (
        {f"tacit_round{{{PEER}}}": "0+1x10 10x400", f"tacit_failed{{{PEER}}}": "0x400"},
        {"job": "tacit a"},
    ),
    "TacitModelDiverged": ({f"tacit_model_finite{{{PEER}}}": "1x10 0x200"}, {"job": "tacit a"}),
    "TacitLossRises": ({f"tacit_prequential_loss{{{PEER}}}": "1x800 5x600"}, {"job": "tacit a"}),
    "TacitLinkDead": (
        {f'tacit_links{{{PEER}, direction="out", state="dead"}}': "0x10 2x200"},
        {"direction": "out"},
    ),
    "TacitLinkRefused": (
        {f'tacit_links{{{PEER}, direction="in", state="quarantined"}}': "0x10 1x200"},
        {"direction": "in", "state": "quarantined"},
    ),
    "TacitManyRefusals": ({f'tacit_refusals_total{{{PEER}, reason="job"}}': "0+5x200"}, {"reason": "job"}),
    "TacitBehind": ({f"tacit_lag_rounds{{{PEER}}}": "0x10 9x200"}, {"job": "tacit a"}),
    "TacitBudgetNearlySpent": (
        {
            f"tacit_epsilon_left{{{PEER}}}": "4x10 0.2x200",
            f"tacit_epsilon_limit{{{PEER}}}": "4x300",
            f"tacit_budget_runs_out{{{PEER}}}": "1x300",
        },
        {"job": "tacit a"},
    ),
    "TacitReleasesCut": ({f"tacit_releases_cut{{{PEER}}}": "0x10 1x200"}, {"job": "tacit a"}),
    "TacitCertificateEnds": ({f"tacit_certificate_expiry_seconds{{{PEER}}}": "9e6x10 1000x200"}, {"job": "tacit a"}),
    "TacitDiskFills": ({f"tacit_disk_free_bytes{{{PEER}}}": "5e9x10 5e8x200"}, {"job": "tacit a"}),
    "TacitSamplesUnusable": (
        {
            f'tacit_samples_total{{{PEER}, outcome="bad"}}': "0x10 0+1x400",
            f'tacit_samples_total{{{PEER}, outcome="used"}}': "0+2x500",
        },
        {"job": "tacit a"},
    ),
}
"""Alert -> series that make it fire, a sample each 15 s, and the labels that it then has beside instance and severity.

Every series begins as that of a healthy peer, so that the alert is not there at once.
"""
LATE = "240m"
QUIET = {"TacitManyRefusals": "15s"}


def test_every_metric_and_label_that_is_named_is_exported():
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert {name for text in expressions for name in re.findall(r"tacit_\w+", text)} == NAMES, "and all are shown"
    rules = re.findall(r"expr: (?:>-\n)?((?:.+\n)(?: {10}.+\n)*)", ALERTS)
    for text in [*expressions, *rules]:
        assert set(re.findall(r"tacit_\w+", text)) <= NAMES
        assert set(re.findall(r"(\w+)(?:=~?|!=)\"", text)) <= LABELS
        for label, value in re.findall(r"(direction|outcome|state)=~?\"([^\"]+)\"", text):
            assert set(value.split("|")) <= set(FIXED_LABELS[label])
    assert len(rules) == ALERTS.count("alert:") == len(FIRES)
    assert MADE_OF_DATA <= NAMES


def test_panels_of_the_dashboard():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells), "no two lie on each other"
    assert max(x for x, _ in cells) == 23


@promtool
def test_rules_are_rules(tmp_path):
    file = Fleet(tmp_path, "hospital-a").write({"hospital-a": 8443})
    assert main_(tmp_path / "here", "--fleet", file) == 0
    assert called("promtool", "check", "config", tmp_path / "here" / "prometheus.yaml")  # with its rules


def case(name, series, labels):
    lines = [
        f"      - {{series: {json.dumps(which)}, values: {json.dumps(values)}}}" for which, values in series.items()
    ]
    severity = re.search(rf"alert: {name}\n(?:.*\n)*?.*severity: (\w+)", ALERTS)[1]
    held = json.dumps({"instance": "a", "severity": severity, **labels})
    return "\n".join(
        [
            "  - interval: 15s",
            "    input_series:",
            *lines,
            "    promql_expr_test:",
            f'      - expr: \'count by (instance) (ALERTS{{alertname="{name}", alertstate="firing"}})\'',
            f"        eval_time: {QUIET.get(name, '1m')}",
            "        exp_samples: []",
            f'      - expr: \'count(ALERTS{{alertname="{name}", alertstate="firing"}})\'',
            f"        eval_time: {LATE if name == 'TacitLossRises' else '40m'}",
            "        exp_samples: [{labels: '{}', value: 1}]",
            f'      - expr: \'max by ({", ".join(json.loads(held))}) (ALERTS{{alertname="{name}", alertstate="firing"}})\'',
            f"        eval_time: {LATE if name == 'TacitLossRises' else '40m'}",
            "        exp_samples:",
            f"          - labels: '{{{', '.join(f'{key}={json.dumps(value)}' for key, value in json.loads(held).items())}}}'",
            "            value: 1",
        ]
    )


@promtool
@pytest.mark.parametrize("name", sorted(FIRES))
def test_an_alert_fires_when_it_should_and_not_before(tmp_path, name):
    (tmp_path / "alerts.yaml").write_text(ALERTS)
    series, labels = FIRES[name]
    (tmp_path / "test.yaml").write_text("rule_files: [alerts.yaml]\ntests:\n" + case(name, series, labels) + "\n")
    assert called("promtool", "test", "rules", tmp_path / "test.yaml")


def called(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return True


def main_(directory, *more):
    with pytest.raises(SystemExit) as end:
        main(["peer", "monitoring", str(directory), *map(str, more)])
    return end.value.code


def test_files_that_are_there_stay(tmp_path, capsys):
    (tmp_path / "alerts.yaml").write_text("mine")
    assert main_(tmp_path) == 2
    assert "alerts.yaml" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["alerts.yaml"]
    assert (tmp_path / "alerts.yaml").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_a_real_prometheus_scrapes_by_an_observer_s_certificate(tmp_path):
    """Two doors by mutual TLS, one of which is closed later: `up` and the figures are what they should be."""
    fleet = Fleet(tmp_path, "hospital-a", "hospital-b")
    (port,) = free_ports(1)

    def query(text):
        address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
        with urllib.request.urlopen(address, timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        return {one["metric"].get("instance"): float(one["value"][1]) for one in found}

    async def until(text, expected):
        found = None
        while found != expected:
            await asyncio.sleep(0.2)
            try:
                found = await asyncio.to_thread(query, text)
            except OSError:
                found = None  # it does not listen yet

    async def scenario():
        async with fleet.door("hospital-a") as (first, _), fleet.door("hospital-b") as (second, reports):
            file = fleet.write({"hospital-a": first.port, "hospital-b": second.port})
            assert await asyncio.to_thread(main_, tmp_path / "monitoring", "--fleet", file) == 0
            config = tmp_path / "monitoring" / "prometheus.yaml"
            config.write_text(config.read_text().replace("scrape_interval: 5s", "scrape_interval: 200ms"))
            process = await asyncio.create_subprocess_exec(
                "prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
                f"--storage.tsdb.path={tmp_path / 'data'}", stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            try:
                await until("up", {"hospital-a": 1, "hospital-b": 1})
                await until("tacit_round", {"hospital-a": 3, "hospital-b": 3})
                reports.round = 8
                await until("tacit_round", {"hospital-a": 3, "hospital-b": 8})
                await first.close()
                await until("up", {"hospital-a": 0, "hospital-b": 1})
            finally:
                process.terminate()
                await process.wait()

    async def limited():
        async with asyncio.timeout(300):
            await scenario()

    asyncio.run(limited())
