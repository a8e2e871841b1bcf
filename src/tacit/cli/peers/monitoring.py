"""`tacit peer monitoring`: files for Prometheus and Grafana."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import reported, say

if TYPE_CHECKING:
    from tacit.config.fleet import Fleet

FILES = ("prometheus.yaml", "alerts.yaml", "dashboard.json")


@reported
def monitoring(
    directory: Annotated[Path, typer.Argument(help="Where to write; files that are there stay as they are.")],
    fleet: Annotated[
        Path | None, typer.Option(help="A fleet.toml: its peers are what Prometheus scrapes.", show_default=False)
    ] = None,
) -> None:
    """Write a configuration and alert rules for Prometheus, and a dashboard for Grafana."""
    from tacit.cli.scaffolds.files import write_new
    from tacit.config.fleet import load_fleet

    texts = {name: (resources.files("tacit.deploy") / "monitoring" / name).read_text("utf-8") for name in FILES}
    texts["prometheus.yaml"] += EXAMPLE if fleet is None else "".join(jobs(load_fleet(fleet)))
    write_new({directory / name: text for name, text in texts.items()})
    say(f"written: {', '.join(FILES)} in {directory}")
    say(f"next: prometheus --config.file={directory / FILES[0]}; in Grafana: Dashboards, New, Import {FILES[2]}")


def jobs(fleet: Fleet) -> list[str]:
    """Return an entry of `scrape_configs` for each peer: its certificate has its name, whatever its address is.

    Args:
      fleet: Peers, and the observer's identity.
    """
    return [
        JOB.format(
            job=_quoted(f"tacit {name}"),
            name=_quoted(name),
            address=_quoted(peer.address),
            ca=_quoted(str(fleet.observer.ca)),
            own=_quoted(str(fleet.observer.certificate)),
        )
        for name, peer in fleet.peers.items()
    ]


def _quoted(text: str) -> str:
    return json.dumps(text)  # a string of JSON is one of YAML


JOB = """\
  - job_name: {job}
    scheme: https
    tls_config: {{ca_file: {ca}, cert_file: {own}, key_file: {own}, server_name: {name}, min_version: TLS13}}
    static_configs:
      - targets: [{address}]
        labels: {{instance: {name}}}
"""
EXAMPLE = JOB.format(
    job='"tacit hospital-a"',
    name='"hospital-a"',
    address='"10.77.0.1:8443"',
    ca='"board/ca.crt"',
    own='"board/identity.pem"',
)
