"""`tacit new` and `tacit init`: files to begin with, each of which says what comes next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import counted, reported, say
from tacit.cli.peers.init import BATCH, FEATURES, init_peer
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.cli.scaffolds.peers import Samples
    from tacit.cli.scaffolds.tables import Look
    from tacit.experiments import Config
    from tacit.experiments.execute import Outcome

app = typer.Typer(help="Write commented files to begin with: an experiment, a method, a peer, a federation.")

Data = Annotated[Path | None, typer.Option(help='A table of your own: CSV, Parquet, or "data/*.csv".')]
Label = Annotated[str | None, typer.Option(help="Its column to predict; by default the last one.")]
Owner = Annotated[str | None, typer.Option(help="Its column that says whose row it is.")]
ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz")
ROUNDS = 40
"""After which the members of a new federation end."""


@app.command(epilog="Example: tacit new experiment --data visits.csv --label readmitted --owner clinic")
@reported
def experiment(
    name: Annotated[str, typer.Argument(help="Name of the file.")] = "experiment",
    data: Data = None,
    label: Label = None,
    owner: Owner = None,
) -> None:
    """Write NAME.toml, which `tacit run` runs; without a table of your own also a made-up one."""
    file = _experiment(_toml(name), data, label, owner)
    say(f"next: {shlex.join(['tacit', 'run', str(file)])}")


@app.command(epilog="Example: tacit new algorithm my_method")
@reported
def algorithm(
    name: Annotated[str, typer.Argument(help="Name of the method.")] = "my_method",
    data: Data = None,
    label: Label = None,
    owner: Owner = None,
) -> None:
    """Write NAME.py, a method that keeps the contract, and NAME.toml, an experiment that runs it."""
    from tacit.cli.scaffolds.algorithm import METHODS, method_files, method_name
    from tacit.cli.scaffolds.experiment import experiment_text
    from tacit.cli.scaffolds.files import write_new

    name = method_name(name)
    refuse_columns_without_data(data, label, owner)
    text = None
    if data is not None:
        found = look(data, label, owner)
        text = experiment_text(found, Path(f"{name}.toml"), METHODS.replace("NAME", name), mutual=True)
    files = method_files(name, text)
    write_new(files)
    say(f"written: {', '.join(map(str, files))}")
    say(f"next: tacit --with {name}.py run {name}.toml")
    say(f"then: python {name}.py checks the contract, and tacit --with {name}.py audit {name} attacks its privacy")


app.command("peer", epilog="Example: tacit new peer hospital-a --stream csv")(init_peer)


@app.command(epilog="Example: tacit new federation wards --data visits.csv --label readmitted --owner clinic")
@reported
def federation(
    name: Annotated[str, typer.Argument(help="Name of the folder.")] = "federation",
    data: Data = None,
    label: Label = None,
    owner: Owner = None,
) -> None:
    """Write a folder with a job, an authority, and several members with their identities and rows, for this machine."""
    import shutil

    from tacit.cli.scaffolds import peers
    from tacit.cli.scaffolds.files import refuse_existing, write_new
    from tacit.cli.scaffolds.streams import stream_text

    refuse_columns_without_data(data, label, owner)
    folder = Path(name)
    refuse_existing(folder)
    samples, rows = _members(data, label, owner)
    ports = peers.free_ports(2 * len(rows))
    links = peers.ring(list(rows), ports[: len(rows)])
    doors = {member: f"127.0.0.1:{port}" for member, port in zip(rows, ports[len(rows) :], strict=True)}
    files = {
        folder / "job.toml": peers.job_text(folder.name, list(rows), samples, BATCH),
        folder / "fleet.toml": peers.fleet_text(folder.name, doors),
    }
    for member, content in rows.items():
        stream = stream_text("csv", samples.label, samples.columns, "rows.csv")
        settings = peers.peer_text(
            member, "../job.toml", {"peers": links[member]}, stream, ROUNDS, status=doors[member]
        )
        files |= {folder / member / "peer.toml": settings, folder / member / "rows.csv": content}
    folder.mkdir(parents=True)  # from here on it is ours alone
    try:
        write_new({**files, folder / "start.sh": peers.START})
        peers.enrol(folder, list(rows))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # it was not there before
        raise
    (folder / "start.sh").chmod(0o755)
    say(f"written: {folder}, with {counted(len(rows), 'member')}: {', '.join(rows)}")
    if data is not None:
        say("note: columns are as in the table; bring them to about -1 ... 1 first, by bounds that you know")
    say(f"next: {folder}/start.sh runs all of them here, for {ROUNDS} rounds")
    first = folder / next(iter(rows))
    say(f"then: tacit ledger show {first}/state/store.db, and tacit peer model {first}/peer.toml")
    say(f"to watch them in a browser, and start and stop them there: tacit board --peers {folder}/fleet.toml")
    say(
        f"they may be over in a second: without `last` in the members' peer.toml they run on until "
        f"tacit peer stop {first}/peer.toml, and tacit peer status {first}/peer.toml has time to look"
    )


def begin() -> Path:
    """Write an experiment on the one table of this folder, or on a made-up one; returns its file."""
    tables = sorted(path for path in Path().iterdir() if path.name.lower().endswith(ENDINGS) and path.is_file())
    if len(tables) > 1:
        listed = ", ".join(map(str, tables))
        raise ConfigError(f"several tables are here ({listed}); name one: tacit new experiment --data {tables[0]}")
    return _experiment(_toml("experiment"), tables[0] if tables else None, None, None)


def predict_command(config: Config, outcome: Outcome) -> str | None:
    """Return the command that predicts the file of an experiment by the model with the lowest loss; None: no file."""
    from tacit.config.experiment import FILES
    from tacit.models.files import MODEL

    path = getattr(config.stream.values, "path", None)
    if config.stream.kind not in FILES or not isinstance(path, str) or outcome.directory is None:
        return None
    table, several = Path(path), outcome.comparison
    losses = {
        outcome.directory / folder: record.metrics["average_loss"]["mean"]
        for folder, record in zip(several.folders(), several.records, strict=True)
        if record.label in config.labels and (outcome.directory / folder / MODEL).exists()
    }
    known = {folder: loss for folder, loss in losses.items() if loss is not None}
    alone = (outcome.directory / MODEL).exists()
    if not alone and not known:
        return None
    model = outcome.directory if alone else min(known, key=lambda folder: known[folder])
    near = table.relative_to(Path.cwd()) if table.is_relative_to(Path.cwd()) else table
    return shlex.join(["tacit", "predict", str(model), str(near), "--out", "predictions.csv"])


def _experiment(file: Path, data: Path | None, label: str | None, owner: str | None) -> Path:
    from tacit.cli.scaffolds.experiment import experiment_text, made_up_table
    from tacit.cli.scaffolds.files import refuse_existing, write_new
    from tacit.experiments import build, parse

    refuse_columns_without_data(data, label, owner)
    table = file.with_suffix(".csv") if data is None else data
    refuse_existing(file, *([table] if data is None else []))
    if data is None:
        write_new({table: made_up_table()})
        say(f"written: {table}, made-up visits to clinics")
    try:
        text = experiment_text(look(table, label, owner), file)
        build(parse(text, file))  # what is written can be run
        write_new({file: text})
    except BaseException:
        if data is None:
            table.unlink(missing_ok=True)
        raise
    say(f"written: {file}")
    return file


def _toml(name: str) -> Path:
    return Path(name if name.endswith(".toml") else f"{name}.toml")


def refuse_columns_without_data(data: Path | None, label: str | None, owner: str | None) -> None:
    """Refuse names of columns where there is no table."""
    if data is None and (label is not None or owner is not None):
        raise ConfigError("--label and --owner name columns of a table; give it too: --data FILE.csv")


def look(data: Path, label: str | None, owner: str | None, owned: bool = True) -> Look:
    """Find out how a table is written, and say so."""
    from tacit.cli.scaffolds.tables import look_at

    found = look_at(data, label, owner, owned)
    made = f"{found.classes} classes" if found.classes else {"binary": "two classes"}.get(found.task, "numbers")
    say(
        f"{data}: {counted(found.rows, 'row')}, {counted(len(found.features), 'feature')}; {found.label!r} holds {made}"
    )
    for words in found.guessed:
        say(f"chosen: {words}")
    for words in found.left_out:
        say(f"left out: {words}")
    return found


def samples_of(found: Look) -> Samples:
    """Return the samples of a table that a peer can follow: numbers without gaps."""
    from tacit.cli.scaffolds.peers import Samples
    from tacit.cli.scaffolds.reading import settings_of
    from tacit.streams.reading.labels import find_classes

    source, special = found.source, settings_of(found.source.reading)
    if special or not found.path.name.lower().endswith(".csv"):
        keys = ", ".join(special) or "no ending .csv"
        raise ConfigError(f"{found.path} ({keys}): a peer follows a plain CSV file, UTF-8 with commas; save it so")
    columns = tuple(
        name
        for name in found.features
        if (column := source.read(name)).kind == "number" and not column.missing.any() and column.values.dtype != bool
    )
    others = [name for name in found.features if name not in columns]
    if others:
        say(f"left out: {', '.join(others)}, since a peer reads numbers without gaps")
    if not columns:
        raise ConfigError(f"{found.path}: no column holds numbers only, and a peer reads nothing else; add one")
    label = source.read(found.label)
    values = {float(value) for value in label.values} if label.kind == "number" else set()
    allowed = [{0.0, 1.0}, {-1.0, 1.0}] if found.task == "binary" else [{float(k) for k in range(found.classes)}]
    named = label.kind == "word"
    if found.task != "regression" and values not in allowed and not named:
        raise ConfigError(
            f"{found.path}, column {found.label!r}: classes of a peer are words or the numbers 0, 1, ...; write them so"
        )
    objective = {"binary": "logistic", "multiclass": "softmax", "regression": "squared"}[found.task]
    names = find_classes(source, found.label, found.task)[0] if named else ()
    return Samples(found.label, columns, objective, found.classes, names)


def _members(data: Path | None, label: str | None, owner: str | None) -> tuple[Samples, dict[str, str]]:
    """Return the samples of a federation, and the rows of each member as a CSV file."""
    import numpy as np

    from tacit.cli.scaffolds import peers
    from tacit.streams.reading.columns import find_owners
    from tacit.streams.reading.labels import class_numbers

    if data is None:
        names = ("hospital-a", "hospital-b", "hospital-c")
        made = {name: peers.made_up_rows(seed, ROUNDS * BATCH) for seed, name in enumerate(names)}
        return peers.Samples("y", FEATURES), {
            name: peers.rows_text(FEATURES, "y", *given) for name, given in made.items()
        }
    found = look(data, label, owner)
    if found.owner is None:
        raise ConfigError(f"{data}: name the column that says whose row it is: --owner COLUMN")
    samples, source = samples_of(found), found.source
    number, owners = find_owners(source, found.owner)
    x = np.stack([np.asarray(source.read(name).values, np.float64) for name in samples.columns], axis=1)
    y: Any = source.read(samples.label).values
    if samples.names:
        codes = class_numbers(source, samples.label, found.task, samples.names)
        y = np.asarray(samples.names, object)[np.maximum(codes, 0).astype(int)]
    return samples, {
        name: peers.rows_text(samples.columns, samples.label, x[number == k], y[number == k])
        for k, name in enumerate(peers.member_names(owners))
    }
