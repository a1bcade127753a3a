"""These tests open no socket and do not see the contexts of the person who runs them."""

import pytest
from pytest_socket import disable_socket, enable_socket

import localcloud.aws.models  # noqa: F401 botocore reads each service's model once, not for each test


@pytest.fixture(autouse=True)
def no_sockets():
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture(autouse=True)
def no_contexts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
