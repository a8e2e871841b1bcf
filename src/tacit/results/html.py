"""HTML in which nothing that was put in is taken for markup.

    html("<p class='{}'>{:,} rounds of {}</p>", kind, rounds, name)

A template is written in the source; what it is filled with is escaped, unless it was made here itself.
"""

from __future__ import annotations

import hashlib
import string
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Any, LiteralString

from tacit.core.text import visible


class Html(str):
    """Markup made here. Two of them added up are text again: use `joined`."""


class _Escaping(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """Write one value."""
        return value if isinstance(value, Html) else escape(visible(format(value, format_spec)))


def html(template: LiteralString, *values: Any, **named: Any) -> Html:
    """Return a template filled with values, as `str.format` does, but escaped."""
    return Html(_Escaping().format(template, *values, **named))


def joined(parts: Iterable[Html], between: LiteralString = "") -> Html:
    """Return pieces of markup one after the other."""
    return Html(between.join(html("{}", part) for part in parts))


def document(title: str, body: Html, *styles: LiteralString, script: LiteralString = "") -> Html:
    """Return a page that asks for nothing from anywhere, and runs nothing but its script: its policy has the hash."""
    digest = b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    allowed = Html(f"; script-src 'sha256-{digest}'") if script else Html("")
    return html(
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:{}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}\n</main>\n{}</body>\n</html>\n",
        allowed,
        title,
        Html("".join(styles)),
        body,
        Html(f"<script>{script}</script>\n" if script else ""),
    )
