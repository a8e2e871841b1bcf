"""Methods are compiled for small problems and run for a blink: a compiler that tries less hard will do."""

from tests.audit.conftest import quick_compiler  # noqa: F401
