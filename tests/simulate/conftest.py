"""As in tests/contract: many small programs, each run for a blink."""

from tests.audit.conftest import quick_compiler  # noqa: F401
