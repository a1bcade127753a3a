"""These tests open no socket."""

import pytest
from pytest_socket import disable_socket, enable_socket


@pytest.fixture(autouse=True)
def no_sockets():
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
