"""What a page of Markdown holds: blocks of code, commands, links and headings."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
WRITTEN = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")), *PAGES]
"""Everything that people read."""
NOT_RUN = re.compile(r"<!-- not run: \S.*? -->")
PROGRAMS = ("tacit", "make", "python", ".venv/bin/python", ".venv/bin/tacit")


class Block(NamedTuple):
    """A block of code."""

    language: str
    """As after the fence; empty for an indented block."""
    text: str
    line: int
    run: bool
    """Whether it stands to be run: no comment above it says otherwise."""


@functools.cache
def _tokens(path: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))


def blocks(path: Path, language: str | None = None) -> list[Block]:
    """Return the blocks of code of a page, in order; those of one language only, where it is given."""
    found = []
    comment = ""
    for token in _tokens(path):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            run = NOT_RUN.fullmatch(comment) is None
            found.append(Block(token.info.strip(), token.content, token.map[0] + 1, run))
        comment = token.content.strip() if token.type == "html_block" else ""
    return [block for block in found if language is None or block.language == language]


def commands(path: Path) -> Iterator[list[str]]:
    """Go through the commands that a page tells its readers to give: words, without comments and redirections."""
    for block in blocks(path):
        if block.language not in ("", "console", "bash"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            text = line.removeprefix("$ ")
            if block.language == "console" and text == line:
                continue  # what it prints
            if text.split(" ")[0] in PROGRAMS:
                yield _words(text)


def _words(line: str) -> list[str]:
    reader = shlex.shlex(re.sub(r"\s\d>", " >", line), posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    words = []
    for word in reader:
        if set(word) <= set("|&;<>()"):
            break
        words.append(word)
    return words


def inline(path: Path, kind: str) -> list[Token]:
    """Return the parts of a page's text that are of one kind: links, images, code."""
    return [part for token in _tokens(path) for part in token.children or () if part.type == kind]


@functools.cache
def anchors(path: Path) -> set[str]:
    """Return what links into a page can name, as repository browsers and the site make it from headings."""
    tokens = _tokens(path)
    titles = [tokens[k + 1].content for k, token in enumerate(tokens) if token.type == "heading_open"]
    slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return {slug if slugs[:k].count(slug) == 0 else f"{slug}-{slugs[:k].count(slug)}" for k, slug in enumerate(slugs)}
