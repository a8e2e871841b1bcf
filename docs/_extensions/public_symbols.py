"""The directive `public`: everything that a module offers, in tables by kind, then each thing with its docstrings.

    ```{eval-rst}
    .. public:: tacit.graphs
    ```

What a module offers is its `__all__`; of a module without one, what it defines or explains itself and does not hide.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import TypeAliasForwardRef

KINDS = ("Functions", "Classes", "Values")


def public_names(module: ModuleType) -> list[str]:
    """Return what a module offers."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    explained = {name for owner, name in ModuleAnalyzer.for_module(module.__name__).find_attr_docs() if not owner}
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return sorted(name for name in explained | own if not name.startswith("_"))


def by_kind(module: ModuleType) -> dict[str, list[str]]:
    """Return the names of a module's functions, classes and values; modules that it offers have a page of their own."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in public_names(module):
        value = getattr(module, name)
        if not inspect.ismodule(value):
            ours = str(getattr(value, "__module__", "")).startswith(
                "tacit"
            )  # a name for another library's type is a value
            kind = (
                "Functions" if inspect.isroutine(value) else "Classes" if inspect.isclass(value) and ours else "Values"
            )
            found[kind].append(name)
    return {kind: names for kind, names in found.items() if names}


def docstring(module: ModuleType, name: str) -> str:
    """Return what is said of a symbol; of a value what stands below it, in the module that it was imported from."""
    value = getattr(module, name)
    if (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith("tacit"):
        return inspect.getdoc(value) or ""
    home = _home(module, name)
    lines = ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name), [])
    if not lines and home != module.__name__:
        return docstring(importlib.import_module(home), name)
    return "\n".join(lines).strip()


def fields(owner: type) -> dict[str, str]:
    """Return the public attributes that a class itself has but pydantic's settings, and what is said of each."""
    explained = ModuleAnalyzer.for_module(owner.__module__).find_attr_docs()
    names = dict.fromkeys([*inspect.get_annotations(owner), *vars(owner)])
    return {
        name: "\n".join(explained.get((owner.__qualname__, name), [])).strip() or _own_words(vars(owner).get(name))
        for name in names
        if not name.startswith("_") and name != "model_config" and not _foreign(vars(owner).get(name))
    }


def _foreign(value: Any) -> bool:
    """Whether another library put it into the class: scikit-learn gives estimators methods of its own."""
    return any(str(getattr(part, "__module__", "")).startswith("sklearn") for part in (value, type(value)))


def silent_fields(owner: type) -> list[str]:
    """Return the attributes of which nothing is said, neither below them nor by name in the docstring of the class."""
    named = set(re.findall(r"\w+", inspect.getdoc(owner) or ""))
    return [name for name, words in fields(owner).items() if not words and name not in named]


def _own_words(value: Any) -> str:
    """Return the docstring of a method or property; a plain value has none, whatever its type says."""
    described = inspect.isroutine(value) or isinstance(value, (property, classmethod, staticmethod))
    return (inspect.getdoc(value) or "") if described else ""


def _home(module: ModuleType, name: str) -> str:
    """Return the module that a name was imported from, or the module itself."""
    for statement in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(statement, ast.ImportFrom) and name in {alias.name for alias in statement.names}:
            return str(statement.module)
    return module.__name__


def escaped(text: str) -> str:
    """Keep |x| in a docstring from being taken for a substitution."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)


class Public(SphinxDirective):
    """Tables of what there is, then each thing in full."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write reStructuredText that shows the module, and parse it."""
        module = importlib.import_module(self.arguments[0])
        lines = [f".. py:module:: {module.__name__}", "", f".. currentmodule:: {module.__name__}", ""]
        lines += [*escaped(inspect.getdoc(module) or "").splitlines(), ""]
        kinds = by_kind(module)
        for kind, names in kinds.items():
            lines += [f".. rubric:: {kind}", "", ".. list-table::", "   :widths: 30 70", "   :class: summary", ""]
            for name in names:
                words = re.split(r"(?<=\.)\s|\n\n", docstring(module, name))[0].replace("\n", " ")
                lines += [f"   * - `{name} <{module.__name__}.{name}>`", f"     - {escaped(words)}"]
            lines.append("")
        for kind, names in kinds.items():
            for name in names:
                lines += _in_full(module, kind, name)
        return self.parse_text_to_nodes("\n".join(lines))


def _in_full(module: ModuleType, kind: str, name: str) -> list[str]:
    if kind == "Functions":
        return [f".. autofunction:: {name}", ""]
    if kind == "Classes":
        return [f".. autoclass:: {name}", "   :members:", "   :undoc-members:", ""]
    words = escaped(docstring(module, name)).splitlines()
    return [f".. py:data:: {name}", "", *(f"   {line}" for line in words), ""]


def _escape(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [escaped(line) for line in lines]


def _make_anew(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Show ... for a default that is made anew each time: Sphinx cannot read what Python shows."""
    return signature and signature.replace("<factory>", "..."), returns


def _skip(app: Sphinx, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    return True if _foreign(value) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of the directive."""
    app.add_directive("public", Public)
    TypeAliasForwardRef.__repr__ = lambda self: self.name  # of a type inside another it shows the wrapping
    app.connect("autodoc-process-docstring", _escape)
    app.connect("autodoc-process-signature", _make_anew)
    app.connect("autodoc-skip-member", _skip)
    return {"version": "1", "parallel_read_safe": True}
