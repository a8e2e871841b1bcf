"""`python -m tacit` is the command `tacit`."""

from __future__ import annotations

from tacit.cli import main

main()
