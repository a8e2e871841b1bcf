"""Tests in a network namespace of their own, for what listens on every interface of its machine, as Ray does."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.hosts import why_not

INSIDE = "TACIT_TEST_HAS_OWN_NETWORK"


def in_own_network(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test by a pytest of its own, in a namespace that has a loopback device and nothing else."""

    @functools.wraps(test)
    def alone(*given: Any, **named: Any) -> None:
        if INSIDE in os.environ:
            test(*given, **named)
            return
        reason = why_not()
        if reason is not None:
            pytest.skip(reason)
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        inside = ["unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        done = subprocess.run(
            [*inside, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", node],
            env={**os.environ, INSIDE: "1"}, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]

    return alone
