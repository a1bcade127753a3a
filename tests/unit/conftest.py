"""These tests open no socket and do not see the contexts of the person who runs them."""

import pytest
from pytest_socket import disable_socket, enable_socket

import localcloud.aws.models  # noqa: F401 botocore reads each service's model once, not for each test
from tests.unit.client_fakes import FakeBackend, descriptor
from tidemill.client import site as site_module


@pytest.fixture(autouse=True)
def no_sockets():
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture(autouse=True)
def no_contexts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))


@pytest.fixture(autouse=True)
def mutated(request, monkeypatch):
    """A test with the parameter `mutant` runs with that one of tests/mutants; None is the product as it is."""
    parameters = getattr(request.node, "callspec", None)
    if parameters and (mutant := parameters.params.get("mutant")):
        mutant(monkeypatch)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes the pipeline of a test in a folder, the current one: its descriptor and its backend."""

    def install(queues=None, **changes):
        found, backend = descriptor(f"file://{tmp_path}/store", queues, **changes), FakeBackend()
        (tmp_path / "store").mkdir()
        (tmp_path / "store" / "pipeline.json").write_text(found.model_dump_json())
        monkeypatch.setattr(site_module, "open_backend", lambda *_: backend)
        monkeypatch.setenv("TIDEMILL_PIPELINE", found.uri)
        return found, backend

    return install
