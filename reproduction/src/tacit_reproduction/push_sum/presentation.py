"""Procedure, tables and figures (2 to 6) of the OPS paper's experiments."""

from __future__ import annotations

from tacit.results.record import figure
from tacit_reproduction.drawing import Panel, draw_curves
from tacit_reproduction.experiment import Figure, Table
from tacit_reproduction.push_sum.claims import percent
from tacit_reproduction.push_sum.design import (
    COMPARISON,
    DENSITIES,
    FRACTIONS,
    LOCAL,
    METHODS,
    SIZES,
    Cell,
    cell_of,
)
from tacit_reproduction.push_sum.evidence import Evidence
from tacit_reproduction.verdicts import TOLERANCE

NOT_PRIVATE = "None of these runs is private: values leave as they were computed."


def method(evidence: Evidence) -> list[str]:
    """Return how it was done, in paragraphs."""
    design, samples = evidence.design, evidence.samples
    reread = f"{evidence.rounds * max(design.sizes) / samples.rows:.1f}"
    tuned = f"at {percent(FRACTIONS[0])} samples" if design.shared_steps else "for each fraction"
    seeds = "one seed" if design.tuning_seeds == 1 else f"{design.tuning_seeds} seeds"
    return [
        f"Online logistic regression with l2 = 1e-4 on {samples.description}: {samples.rows:,} samples, "
        f"{samples.x.shape[1] - 1} columns and a constant one as intercept. In each round every node "
        "predicts on one sample of its own, pays the loss (regulariser included), takes a step and talks "
        "to its neighbours. The figure is the average of that loss over all nodes and rounds, as in the "
        "text.",
        "The stochastic fraction of the samples is dealt out evenly at random; the rest is cut into as "
        "many k-means clusters as there are nodes, one for each. Every run has the same number of "
        f"rounds, {evidence.rounds:,}, which gives each of {design.nodes} nodes an even share of the "
        "samples once; nodes whose samples end start over. With clusters the shares differ in size, and "
        f"samples of small ones are read more often. The largest network, {max(design.sizes):,} nodes, "
        f"reads a sample {reread} times on average.",
        "Graphs are random and strongly connected; a node's out-degree is uniform from 1 up to the "
        "bound. OPS and DOL-Asymm send with sender-normalised weights; DOL-Symm keeps mutual links only, "
        "with Metropolis weights; COL averages over all nodes; Local OGD sends nothing.",
        f"Each method's constant step was chosen for each network {tuned} on {seeds} "
        f"not used otherwise, on a grid of ratio {design.step_ratio:.3g}: the one whose "
        f"neighbours on both sides are worse. Then it ran on {design.seeds} other seeds, each with its "
        "own graph, partition and order of samples, the same for all methods.",
        "Intervals are 95 % (Student's t) over the differences seed by seed. Lower means that the whole "
        f"interval of the difference lies below 0; not worse, that it ends below {100 * TOLERANCE:g} % of "
        "what is compared with.",
        f"{NOT_PRIVATE} The text calls it protection that models are exchanged instead of gradients (OPS paper, "
        "sec. 4.4).",
    ]


def losses(evidence: Evidence) -> Table:
    """Return the table of all methods in the main setting."""
    rows = []
    for method in METHODS:
        shown = []
        for fraction in FRACTIONS:
            outcome = evidence.of(method, evidence.design.main(fraction))
            spread = figure(outcome.average)
            half = "" if spread["high"] is None else f" ± {spread['high'] - spread['mean']:.4f}"
            shown += [f"{outcome.average.mean():.4f}{half}", f"{outcome.accuracy.mean():.2%}"]
        rows.append((method, *shown))
    columns = (
        "method",
        *(f"{what}, {percent(f)}" for f in FRACTIONS for what in ("average loss", "accuracy")),
    )
    design = evidence.design
    network = f"{design.nodes} nodes with up to {design.neighbours} neighbours"
    note = f"{network}; ± is half of the 95 % interval of the mean. {NOT_PRIVATE}"
    return Table("All methods", note, columns, rows)


def steps(evidence: Evidence) -> Table:
    """Return the table of the steps chosen and what was tried."""
    rows = []
    for cell, tuned in sorted(evidence.steps.items()):
        tried = ", ".join(f"{step:.3g}: {loss:.4f}" for step, loss in tuned.tried.items())
        edge = " (at the edge of the grid)" if tuned.at_edge else ""
        nodes, neighbours, fraction = cell.setting
        where = f"{nodes} nodes, up to {neighbours} neighbours, {percent(fraction)}"
        rows.append((cell.method, where, f"{tuned.step:.3g}{edge}", tried))
    edges = sum(tuned.at_edge for tuned in evidence.steps.values())
    shared = " Each serves at the other fractions too." if evidence.design.shared_steps else ""
    found = "All optima lie inside the grid." if not edges else f"{edges} optima lie at an edge of the grid."
    return Table("Steps", found + shared, ("method", "setting", "step", "loss on the tuning seeds"), rows)


def figures(evidence: Evidence) -> list[Figure]:
    """Return the pictures: those of the text's figures 2 to 6."""
    design = evidence.design
    y_label = "average loss up to round t (nats)"
    bands = f"Lines are means over {design.seeds} seeds, bands their 95 % intervals. {NOT_PRIVATE}"

    def panels(cells: dict[str, dict[float, Cell]]) -> list[Panel]:
        return [
            Panel(
                percent(fraction),
                {label: evidence.outcomes[by_fraction[fraction]].running for label, by_fraction in cells.items()},
            )
            for fraction in FRACTIONS
        ]

    def compared(*methods: str) -> dict[str, dict[float, Cell]]:
        return {m: {f: cell_of(m, design.main(f)) for f in FRACTIONS} for m in methods}

    sizes = {f"n = {n}": {f: Cell("OPS", design.by_size(f)[k]) for f in FRACTIONS} for k, n in enumerate(design.sizes)}
    densities = {
        f"up to {d} neighbours": {f: Cell("OPS", design.by_density(f)[k]) for f in FRACTIONS}
        for k, d in enumerate(design.densities)
    }
    network = f"{design.nodes} nodes, up to {design.neighbours} neighbours"
    baselines = compared("COL", "OPS", "DOL-Symm", "DOL-Asymm")
    alone = compared("OPS", "Local OGD")
    drawn = (
        (COMPARISON, f"OPS and the baselines ({network})", baselines),
        (SIZES, f"OPS on networks of different size (up to {design.size_neighbours} neighbours)", sizes),
        (DENSITIES, f"OPS on networks of different density ({design.density_nodes} nodes)", densities),
        (LOCAL, f"OPS and learning alone ({network})", alone),
    )
    return [
        draw_curves(name, title, f"As the text's {design.in_text[name]}. {bands}", panels(cells), y_label)
        for name, title, cells in drawn
    ]
