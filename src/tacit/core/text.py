"""Text from outside made fit to be shown: in a terminal, a page or a plot."""

from __future__ import annotations

import re

# Controls (C0 but tab and newline, DEL, C1), marks that turn or break lines, invisible tags, and halves of pairs.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return text in which whatever a terminal obeys, or a reader cannot see, stands as its number (``\\u001b``)."""
    return _HIDDEN.sub(_numbered, text)


def _numbered(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
