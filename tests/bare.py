"""Python processes in which the libraries of the extras are not installed."""

from __future__ import annotations

import os
import subprocess
import sys

from tacit.deploy.swarm import one_thread

EXTRAS = {
    "plots": ["matplotlib"],
    "data": ["pyarrow", "pandas", "sklearn", "tomli_w"],
    "sql": ["sqlalchemy"],
    "postgres": ["psycopg"],
    "kafka": ["confluent_kafka"],
    "mqtt": ["paho"],
    "otel": ["opentelemetry"],
    "graphs": ["networkx"],
    "accounting": ["dp_accounting"],
    "mlflow": ["mlflow"],
    "onnx": ["onnx"],
}
"""Extra -> its libraries, by the names under which they are imported."""
LIBRARIES = [name for names in EXTRAS.values() for name in names]
BLOCK = """
import sys

class Blocked:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked({names!r}))
"""


def run_bare(code: str, *arguments: object, without: list[str] = LIBRARIES, cwd: object = None) -> str:
    """Run code without some libraries, in a process of its own; return what it printed."""
    program = BLOCK.replace("{names!r}", repr(set(without))) + code
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=one_thread(os.environ),
        cwd=cwd,  # type: ignore[arg-type]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
