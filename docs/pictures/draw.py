"""Draws the pictures of docs/concepts.md: `python docs/pictures/draw.py`. Plain SVG, with nothing to install.

Each has its own light ground, so that it reads on a dark page too, and differs by shape and shade where it differs by
colour, so that it reads in greyscale.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.sax.saxutils import escape

INK, SOFT, GROUND = "#1f2933", "#5c6b7a", "#fbfaf7"
BLUE, PALE_BLUE, ORANGE, PALE_ORANGE, GREY = "#1f5fa8", "#d9e6f5", "#b3541e", "#f8e3d3", "#dde1e5"
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"


class Picture:
    """An SVG under construction."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size, self.title, self.parts = (width, height), title, [""]
        self.parts[0] = f'<rect width="{width}" height="{height}" rx="10" fill="{GROUND}"/>'

    def text(self, x: float, y: float, words: str, size: int = 15, fill: str = INK, **style: str) -> None:
        """Write words centred at a point, or from it on with anchor="start"."""
        anchor, weight = style.get("anchor", "middle"), style.get("weight", "400")
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>'
        )

    def lines(self, x: float, y: float, lines: list[str], fill: str = INK) -> None:
        """Write lines below each other, from a point on."""
        for k, line in enumerate(lines):
            self.text(x, y + 22 * k, line, 14, fill, anchor="start")

    def box(self, x: float, y: float, w: float, h: float, fill: str, stroke: str = INK, dash: str = "") -> None:
        """Draw a rectangle with round corners."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" fill="{fill}" stroke="{stroke}" '
            f'stroke-width="1.6"{dashes}/>'
        )

    def circle(self, x: float, y: float, r: float, fill: str) -> None:
        """Draw a disc with a rim."""
        self.parts.append(f'<circle cx="{x}" cy="{y}" r="{r}" fill="{fill}" stroke="{INK}" stroke-width="1.8"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, stroke: str = INK, dash: str = "") -> None:
        """Draw a line with a head at its end."""
        angle = math.atan2(y2 - y1, x2 - x1)
        wing = [(x2 - 11 * math.cos(angle + side), y2 - 11 * math.sin(angle + side)) for side in (0.42, -0.42)]
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        head = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(x2, y2), *wing])
        end = (x2 - 8 * math.cos(angle), y2 - 8 * math.sin(angle))
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{stroke}" '
            f'stroke-width="2"{dashes}/><polygon points="{head}" fill="{stroke}"/>'
        )

    def curve(self, points: list[tuple[float, float]], stroke: str, fill: str = "none", dash: str = "") -> None:
        """Draw a line through points."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(
            f'<path d="{path}" fill="{fill}" fill-opacity="0.55" stroke="{stroke}" stroke-width="2.2"{dashes}/>'
        )

    def svg(self) -> str:
        """Return the file."""
        width, height = self.size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="{FONT}">'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", *self.parts, "</svg>", ""])


def graph() -> Picture:
    """Five agents; who sends to whom."""
    picture = Picture(720, 330, "Five agents and the links along which they send; some links go one way only")
    place = {"A": (120, 165), "B": (270, 70), "C": (430, 120), "D": (400, 260), "E": (230, 265)}
    both = [("B", "C"), ("D", "E")]
    for a, b in [("A", "B"), ("C", "D"), ("E", "A"), ("E", "B"), *both, *((b, a) for a, b in both)]:
        (x1, y1), (x2, y2) = place[a], place[b]
        length, shift = math.dist(place[a], place[b]), 7 if (a, b) in both or (b, a) in both else 0
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        picture.arrow(
            x1 + 27 * ux - shift * uy,
            y1 + 27 * uy + shift * ux,
            x2 - 27 * ux - shift * uy,
            y2 - 27 * uy + shift * ux,
            ORANGE if (a, b) == ("A", "B") else SOFT,
        )
    for name, (x, y) in place.items():
        picture.circle(x, y, 25, PALE_ORANGE if name == "A" else PALE_BLUE)
        picture.text(x, y + 6, name, 18, weight="600")
    picture.text(172, 96, "W[B, A]", 15, ORANGE, weight="600")
    picture.lines(480, 70, ["A sends to B: A trusts B.", "B does not send to A."])
    picture.lines(480, 175, ["W[B, A] is what B makes of", "what A sent. Each agent also", "hears itself: W[B, B]."])
    picture.lines(480, 280, ["No agent sees the whole graph."], SOFT)
    return picture


def one_round() -> Picture:
    """What an agent does in a round."""
    picture = Picture(720, 300, "One round: compute sees the data, the mechanism adds noise, only then anything leaves")
    picture.box(20, 58, 262, 150, PALE_ORANGE, ORANGE, "6 5")
    picture.text(151, 84, "sees data", 14, ORANGE, weight="600")
    picture.box(40, 108, 108, 62, "#ffffff")
    picture.box(175, 108, 134, 62, INK)
    picture.box(340, 108, 100, 62, "#ffffff")
    picture.box(590, 108, 108, 62, "#ffffff")
    centres = {"compute": 94, "mechanism": 242, "emit": 390, "absorb": 644}
    under = {"compute": "a value", "mechanism": "noise, booked", "emit": "messages", "absorb": "the new state"}
    for name, x in centres.items():
        colour = GROUND if name == "mechanism" else INK
        picture.text(x, 136, name, 16, colour, weight="600")
        picture.text(x, 157, under[name], 12, GREY if name == "mechanism" else SOFT)
    for x1, x2 in ((148, 175), (309, 340), (440, 590)):
        picture.arrow(x1 + 2, 139, x2 - 2, 139)
    picture.text(515, 126, "to and from", 13, SOFT)
    picture.text(515, 162, "neighbours", 13, SOFT)
    picture.arrow(94, 30, 94, 104, ORANGE)
    picture.text(106, 36, "this round's batch", 13, ORANGE, anchor="start")
    picture.curve([(644, 172), (644, 238), (94, 238), (94, 190)], SOFT)
    picture.arrow(94, 200, 94, 174, SOFT)
    picture.text(370, 260, "the state goes into the next round", 13, SOFT)
    picture.text(500, 84, "made of released values only", 14, BLUE, weight="600")
    return picture


def release() -> Picture:
    """Why a noisy value tells little of one record."""
    picture = Picture(720, 320, "The densities of a released value for two neighbouring data sets")
    left, right, scale = 300.0, 420.0, 95.0

    def density(x: float, centre: float) -> float:
        return 250 - 185 * math.exp(-abs(x - centre) / scale)

    across = [40 + 2.0 * k for k in range(321)]
    for centre, stroke, fill, dash in ((left, BLUE, PALE_BLUE, ""), (right, ORANGE, "none", "7 5")):
        heights = [(x, density(x, centre)) for x in across]
        picture.curve(heights if fill == "none" else [(40, 250), *heights, (680, 250)], stroke, fill, dash)
    picture.curve([(40, 250), (680, 250)], INK)
    picture.arrow(left, 272, right, 272)
    picture.arrow(right, 272, left, 272)
    picture.text(360, 294, "at most 2 clip: what one record can move", 13)
    picture.text(600, 272, "released value", 13, SOFT)
    picture.text(170, 70, "with your record", 14, BLUE, weight="600")
    picture.text(560, 70, "with another in its place", 14, ORANGE, weight="600")
    picture.curve([(540, density(540, right)), (540, density(540, left))], INK)
    picture.text(550, 170, "their ratio is", 13, anchor="start")
    picture.text(550, 188, "at most exp(epsilon)", 13, anchor="start", weight="600")
    return picture


def ledger() -> Picture:
    """Charge first, then send; and what is refused."""
    picture = Picture(
        720, 320, "The ledger charges a release before it leaves, and refuses one that would cost too much"
    )
    picture.text(40, 40, "one record's account", 14, weight="600", anchor="start")
    top, base, unit = 60, 250, 38
    picture.curve([(40, base), (420, base)], INK)
    picture.curve([(40, top + 18), (420, top + 18)], ORANGE, dash="7 5")
    picture.text(46, top + 10, "budget", 13, ORANGE, anchor="start", weight="600")
    for k in range(5):
        x = 60 + 72 * k
        if k < 4:
            picture.box(x, base - unit * (k + 1), 44, unit * (k + 1), PALE_BLUE)
            picture.box(x, base - unit * (k + 1), 44, unit, BLUE)
        else:
            picture.box(x, base - unit * 5, 44, unit * 5, "none", ORANGE, "5 4")
            picture.text(x + 22, base - unit * 5 + 58, "no", 15, ORANGE, weight="600")
        picture.text(x + 22, base + 20, f"read {k + 1}", 12, SOFT)
    picture.text(230, base + 48, "every release that reads the record adds its epsilon", 13, SOFT)
    picture.lines(450, 92, ["1", "2", "", "3"], SOFT)
    picture.lines(
        470,
        92,
        ["compute, and draw the noise", "charge, state and message:", "one commit to the disk", "only then: send"],
    )
    picture.lines(450, 216, ["A release over the budget is", "refused, and nothing leaves."], ORANGE)
    return picture


if __name__ == "__main__":
    for name, make in {"graph": graph, "round": one_round, "release": release, "ledger": ledger}.items():
        (Path(__file__).parent / f"{name}.svg").write_text(make().svg(), encoding="utf-8")
