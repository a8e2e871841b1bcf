"""How Sphinx makes the manual's site of these pages: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

import tacit  # noqa: E402

project = "tacit"
copyright = "the authors of tacit, Apache-2.0"
version = release = tacit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["public_symbols", "command_line", "repository_files"]  # our own
exclude_patterns = ["_extensions", "_static"]

# Markdown
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
smartquotes = False  # --out is no dash

# Docstrings: a name in single backticks is a link where the reference has it, and plain code where it has not.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
autodoc_preserve_defaults = True
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
TYPE_NAMES = """npt.ArrayLike NDArray Array Key Tree State Params Batch Schedule GraphSource StreamSource Recorder Noted
FloatArray IntArray"""
autodoc_type_aliases = {name: name for name in TYPE_NAMES.split()}
nitpicky = True
# Types of other libraries, parameters, and calls in backticks; internal modules that a docstring points at.
nitpick_ignore_regex = [("py:class", ".*"), ("py:obj", r"(?!tacit\.).*|.*\(.*")]
nitpick_ignore = [("py:obj", name) for name in ("tacit.streams.validate.check_labels",)]
toc_object_entries = False  # each page begins with tables of what is on it

# Pages: nothing is fetched from elsewhere when they are read.
html_theme = "furo"
html_title = f"tacit {release}"
html_static_path = ["_static"]
html_css_files = ["tacit.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
