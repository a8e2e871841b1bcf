"""[stream] of a new peer.toml, one for each kind, with what has to be filled in."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.cli.scaffolds.files import toml

PORT = 9443
"""Of operations, on loopback."""
SECRETS = """# tls = true               # with ca, certificate and private_key, paths of PEM files, where needed
# username = "reader"      # with tls alone; chmod 600 the file
# password_file = "password"
"""
NAMED = """label = {label}
columns = {columns}
"""
STREAMS = {
    "push": """[stream]                   # samples come by HTTP on this host, or by `peer.learn` in an application
# curl -s -H 'Content-Type: application/json' -d '{{"x": {x}, "y": 1}}' http://127.0.0.1:{port}/learn
kind = "push"
""",
    "csv": """[stream]                   # the peer follows the file, which may grow
kind = "csv"
path = {path}
""" + NAMED + """# key = "id"               # columns by which a record is known, where the file is written anew
""",
    "jsonl": """[stream]                   # the peer follows the file, which may grow: an object per line
kind = "jsonl"
path = {path}
""" + NAMED + """# key = "id"               # keys by which a record is known, where the file is written anew
""",
    "kafka": """[stream]                   # messages are JSON objects; needs pip install 'tacit[kafka]'
kind = "kafka"
brokers = ["localhost:9092"]   # yours
topic = "records"              # yours
start = "earliest"         # where a new store begins; or "latest"
""" + NAMED + """# key = "id"               # fields by which a record is known that a producer sends again
""" + SECRETS,
    "mqtt": """[stream]                   # messages are JSON objects; needs pip install 'tacit[mqtt]'
kind = "mqtt"
broker = "localhost:1883"  # yours
topic = "records/#"        # yours
""" + NAMED + """key = "id"                 # fields by which a record is known; without it equal messages are one
""" + SECRETS,
    "sql": """[stream]                   # a table that grows; needs pip install 'tacit[sql,postgres]'
kind = "sql"
url = "postgresql+psycopg://reader:${{DB_PASSWORD}}@localhost/clinic"   # yours; or url_file, for all of it
table = "records"          # yours; or query = "SELECT ..."
order = "id"               # its column of whole numbers that grow
""" + NAMED,
}  # fmt: skip


def stream_text(kind: str, label: str, columns: Sequence[str], path: str | None = None) -> str:
    """Return the table of a kind, for records with a label and such columns."""
    return STREAMS[kind].format(
        label=toml(label),
        columns=toml(list(columns)),
        path=toml(path or f"records.{kind}"),
        x=toml([round(0.1 * (k + 1), 1) for k in range(len(columns))]),
        port=PORT,
    )
