import pytest
from served_demo import TEMPLATE, Served, demo_with


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return demo_with(TEMPLATE, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def served(folder):
    served = Served(folder, "--api-key", "secret")
    yield served
    assert served.stop() == 0
