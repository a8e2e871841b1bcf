"""SVG that was read back from a disk, before it stands in a page: only shapes, which load and run nothing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from tacit.core.errors import ResultError
from tacit.core.text import visible
from tacit.results.sealed import AGAIN

_SVG = "{http://www.w3.org/2000/svg}"
_SHAPES = {"svg", "g", "path", "defs", "use", "clipPath", "rect", "style", "image", "linearGradient", "stop"}
_RULE = re.compile(r"\s*\*\{(\s*stroke-[a-z]+:\s*[a-z]+;?)*\s*\}\s*")
"""The style of all of matplotlib's shapes, and of no more than shapes."""
_LINK = "{http://www.w3.org/1999/xlink}href"
ElementTree.register_namespace("", _SVG.strip("{}"))
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def check_svg(content: bytes, path: Path) -> str:
    """Return an SVG as text; refuse one that is more than the shapes that matplotlib draws."""
    try:
        text = content.decode("utf-8")
        if not text.startswith("<svg ") or "<!DOCTYPE" in text or "<?" in text:
            raise ValueError("expected one element svg")
        picture = ElementTree.fromstring(text)
        for remark in picture.findall(f"{_SVG}metadata"):
            picture.remove(remark)
        for element in picture.iter():
            _check(element)
        # Written anew: what is a comment in XML need not be one in a page.
        shapes = ElementTree.tostring(picture, encoding="unicode")
        if visible(shapes) != shapes:
            raise ValueError("a character that cannot be seen")
    except (ValueError, ElementTree.ParseError, RecursionError) as error:
        raise ResultError(f"{path} is no picture that can stand in a page ({error}); {AGAIN}") from error
    return shapes


def _check(element: ElementTree.Element) -> None:
    name = element.tag.removeprefix(_SVG)
    if name == element.tag or name not in _SHAPES:
        raise ValueError(f"an element {name[:40]!r}")
    for key, value in element.attrib.items():
        inside = value.startswith(("#", "data:image/png;base64,"))
        if key.lower().startswith("on") or (key in ("href", _LINK) and not inside):
            raise ValueError(f"an attribute {key[:40]!r}")
        _check_style(value.replace("url(#", ""))
    if name == "style" and not _RULE.fullmatch(element.text or ""):
        raise ValueError("a style of more than strokes")


def _check_style(text: str) -> None:
    if any(word in text.lower() for word in ("url(", "image-set(", "@import", "expression(", "\\")):
        raise ValueError("a style that loads something")
