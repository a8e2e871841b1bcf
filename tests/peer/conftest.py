from __future__ import annotations

import pytest

from tests.peer.linked import Federation


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """Three peers with certificates of one authority."""
    return Federation(tmp_path_factory.mktemp("federation"), "a", "b", "c")
