"""Study `pao-calcofi`: salinity of sea water from clients that are mostly away (Gauthier 2023, sec. 4.4.4)."""

from functools import partial

from tacit_reproduction.gauthier import asynchronous as net
from tacit_reproduction.gauthier.asynchronous import FED, SGD, STEP, Cell, apart, factors, learning_curves
from tacit_reproduction.study import Judgement, Study
from tacit_reproduction.table import Results
from tacit_reproduction.verdict import Claim, Pair, below, headline, judged

AS_GOOD = 0.1  # dB by which U1 may be above Online-FedSGD and still have the same accuracy
SAVED = 0.98
SPLITS = ("dealt", "by place")
KNOWN = {("dealt", SGD): 0.05, ("dealt", FED): 0.8, ("by place", SGD): 0.05, ("by place", FED): 0.56}
"""Steps that the quick form takes; they were matched at the size of the full one."""
WORDS = {"dealt": "dealt by chance, unevenly", "by place": "by place, unevenly"}


def cells(quick: bool, first: int) -> list[Cell]:
    return [Cell(method, data=data) for data in SPLITS for method in ("U1", "C2")]


def rivals(quick: bool) -> list[Cell]:
    return [Cell(method, step=KNOWN[data, method], data=data) for data in SPLITS for method in (SGD, FED)]


def judge(results: Results) -> Judgement:
    ask = partial(judged, unit=" dB", seen_in="calcofi")

    def pairs(data: str, *links: str) -> list[Pair]:
        found = apart(results.where(data=data), *links)
        return [pair._replace(name=f"{pair.name}, {WORDS[data]}") for pair in found]

    def both(data: str) -> list[Claim]:
        own, whole = (results.where(data=data).of("bits", **factors(method))[0] for method in ("U1", SGD))
        saved = 1 - own / whole
        alike = f"U1 has the accuracy of {SGD} (at most {AS_GOOD:g} dB above it) with {SAVED:.0%} less communication"
        said = ("the same accuracy with 98 % less communication", "C2 is able to outperform all other methods")
        texts = [f"figure 4.4: {words}" if data == SPLITS[0] else "" for words in said]  # others are of the sweep
        note = f"{saved:.1%} of the bits are saved"
        same = ask(f"{alike}: {WORDS[data]}", pairs(data, f"U1 - {SGD}"), below(AS_GOOD), text=texts[0], note=note)
        if saved < SAVED - 1e-9:
            same = same._replace(holds=False, outcome="fails", leans=False)
        best = f"C2 outperforms U1, {SGD} and Online-Fed: {WORDS[data]}"
        others = pairs(data, *(f"C2 - {other}" for other in (SGD, FED, "U1")))
        return [same, ask(best, others, below(), text=texts[1])]

    def gap(data: str, method: str) -> str:
        return f"{method} {pairs(data, f'{method} - {SGD}')[0].interval.mean:+.2f} dB"

    found = {data: both(data) for data in SPLITS}
    told = headline(
        net.AS_GOOD_AS_SGD,
        place="figure 4.4", text="curves; samples are distributed progressively and unevenly",
        ours="; ".join(f"{WORDS[data]}: {gap(data, 'U1')}, {gap(data, 'C2')} against {SGD}" for data in SPLITS),
        why="How much clients differ decides, and the text does not say how bottles are shared out: the same bottles "
        "in the same iterations, dealt to clients by chance in shares of 1 : 2 : 3 : 4 or by place, in blocks of "
        "neighbours, which is as far from identically distributed as these data can be.",
        claims=found["dealt"], sweep={WORDS[data]: found[data] for data in SPLITS}, seen_in="calcofi")  # fmt: skip
    caption = "As figure 4.4; a model of zeros has 0 dB."
    figure = learning_curves(results, "calcofi", "Salinity of sea water", caption, panels="data", words=WORDS)
    return Judgement([claim for data in SPLITS for claim in found[data]], [told], [figure])


STUDY = Study(
    name="pao-calcofi", title="PAO-Fed on CalCOFI: salinity of sea water",
    source="Gauthier (2023), sec. 4.4.4, figure 4.4", minutes=4, measure=net.measured(cells, rivals), judge=judge,
    tabled=("steady", "early", "bits"),
    method=f"""
Salinity from depth, temperature, oxygen and its saturation; the text names no columns. {net.setting("calcofi").strip()}

The text distributes 80,000 samples "progressively and unevenly"; who gets which it does not say. Dealt by chance: the
bottles go to clients at random, in shares of 1 : 2 : 3 : 4. By place: the same bottles, a block of neighbouring places
for each client. Errors are on bottles of all places that nobody holds. The step of PAO-Fed is {STEP:g}, and m is 4;
other methods start like U1, as in `pao-vs-baselines`.
""")  # fmt: skip
