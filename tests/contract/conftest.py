"""Contract tests compile hundreds of small programs and run each for a blink: a compiler that tries less hard will do."""

from tests.audit.conftest import quick_compiler  # noqa: F401
