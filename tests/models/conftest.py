import pytest

from tests.models import clinics


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    return clinics.write(tmp_path_factory.mktemp("clinics"))


@pytest.fixture(scope="session")
def runs(file):
    return {task: clinics.run(file, task) for task in clinics.LABELS}
