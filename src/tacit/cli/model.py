"""`tacit predict` and `tacit model`: use a model that came out of a run or a peer, look at it, hand it on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import counted, print_table, reported, say
from tacit.core.errors import ConfigError

if TYPE_CHECKING:
    from tacit.models import Model

app = typer.Typer(help="Models that came out of runs and peers: their card, and other formats.")

ModelPath = Annotated[Path, typer.Argument(help="A model's file, or the directory of a run.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the file that is there.")]


@reported
def predict(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(help="A table with the columns of the model.", show_default=False)],
    out: Annotated[Path, typer.Option(help="CSV file to write.")] = Path("predictions.csv"),
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    owner: Annotated[str | None, typer.Option(help="Whose model predicts; by default the mean of all.")] = None,
    owner_column: Annotated[
        bool, typer.Option("--owner-column", help="Predict each row by its own owner's model.")
    ] = False,
    unknown: Annotated[
        str, typer.Option(help="Words that are no category of their column: refuse, or ignore (none of them).")
    ] = "refuse",
    force: Force = False,
) -> None:
    """Predict the rows of a table by a model: all columns, and the prediction in the words of the label."""
    from tacit.models import load_model
    from tacit.models.files import put_file
    from tacit.models.predicting import predicted

    if owner is not None and owner_column:
        raise ConfigError("--owner and --owner-column: name one owner's model, or take each row's own; not both")
    _check_free(out, force)
    if unknown not in ("refuse", "ignore"):
        raise ConfigError(f"--unknown {unknown!r}: expected refuse or ignore")
    used = load_model(model)
    found = predicted(used, data, proba=proba, owner=owner, by_owner=owner_column, unknown=unknown)  # type: ignore[arg-type]
    put_file(out, found.content, force)
    say(f"{counted(found.rows, 'row')} predicted: {out} (added: {', '.join(found.added)})")
    if found.judged:
        say(", ".join(f"{name} {value:.4g}" for name, value in found.judged.items()))
        if data.name in used.card.data.description:
            say("note: the model learnt from a table of this name; of rows that it knows the figure promises too much")
    if found.unjudged:
        say(f"note: not compared with the labels: {found.unjudged}", err=True)


@app.command(epilog="Example: tacit model show runs/iris")
@reported
def show(
    model: ModelPath,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole card as JSON.")] = False,
) -> None:
    """Say what a model is: what it predicts, of which columns, whose it is, and what privacy was spent."""
    found = _loaded(model)
    card = found.card
    if as_json:
        say(json.dumps(card.model_dump(mode="json"), indent=2))
        return
    facts = {
        "model": repr(found),
        "label": card.label or "not known",
        "classes": ", ".join(map(str, found.classes)) or "none",
        "columns": ", ".join(card.columns) or f"{card.features}, without names",
        "owners": ", ".join(card.owners) or "not in it",
        "data": card.data.description,
        "made": f"{card.made.created}, {card.made.algorithm}, {card.made.rounds:,} rounds",
        **{name: "-" if value is None else f"{value:.4g}" for name, value in card.figures.items()},
    }
    print_table(("", ""), list(facts.items()))
    say(card.privacy.words)
    say(card.privacy.model)
    for note in card.notes:
        say(note)


@app.command(epilog="Example: tacit model card runs/iris --out card.html")
@reported
def card(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="Page to write.")] = Path("card.html"),
    figures: Annotated[bool, typer.Option(help="Show figures, which no privacy account covers.")] = True,
    force: Force = False,
) -> None:
    """Write a model's card as a page: privacy, data, figures, who took part, how it is used."""
    from tacit.models.files import put_file
    from tacit.results.pages.model_card import page

    found = _loaded(model)
    put_file(out, page((found if figures else found.without_figures()).card, model.name).encode("utf-8"), force)
    say(f"card: {out}")


@app.command(epilog="Example: tacit model onnx runs/iris --out iris.onnx")
@reported
def onnx(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("model.onnx"),
    rows: Annotated[bool, typer.Option("--rows", help="Take rows of numbers, as the model sees them.")] = False,
    force: Force = False,
) -> None:
    """Write a linear model as an ONNX graph that reads the same columns; needs the extra onnx."""
    say(f"ONNX: {_loaded(model).to_onnx(out, preprocess=not rows, force=force)}")


def _loaded(path: Path) -> Model:
    from tacit.models import load_model

    return load_model(path)


def _check_free(out: Path, force: bool) -> None:
    """Refuse a file that is there before the work; `put_file` makes sure of it."""
    if out.exists() and not force:
        raise ConfigError(f"--out {out} is there already, and is not overwritten; name another file, or add --force")
