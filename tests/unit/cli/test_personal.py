"""Which personal pipeline a command means. That one is made and removed is in tests/e2e/personal."""

import getpass

import pytest

from tidemill.cli.personal import meant
from tidemill.errors import CallerError


@pytest.fixture(autouse=True)
def login(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "Bob")


@pytest.mark.parametrize(
    ("files", "cloud", "name", "found"),
    [
        ([], None, None, ("aws", "bob")),
        ([], "gcp", "ada", ("gcp", "ada")),
        (["Pulumi.yaml", "Pulumi.vision-dev.yaml"], None, None, ("aws", "bob")),
        (["Pulumi.ada-personal.yaml"], None, None, ("aws", "ada")),
        (["Pulumi.ada-gcp-personal.yaml"], None, None, ("gcp", "ada")),
        (["Pulumi.ada-gcp-personal.yaml"], None, "ada", ("gcp", "ada")),
        (["Pulumi.ada-gcp-personal.yaml"], "aws", None, ("aws", "bob")),
        (["Pulumi.ada-gcp-personal.yaml"], None, "eve", ("aws", "eve")),
        (["Pulumi.ada-personal.yaml", "Pulumi.bob-personal.yaml"], None, None, ("aws", "bob")),
        (["Pulumi.ada-personal.yaml", "Pulumi.eve-gcp-personal.yaml"], "gcp", None, ("gcp", "eve")),
    ],
)
def test_the_only_stack_file_is_meant(tmp_path, files, cloud, name, found):
    for file in files:
        (tmp_path / file).touch()
    assert meant(tmp_path, cloud, name) == found


def test_of_several_stack_files_one_is_named(tmp_path):
    for file in ("Pulumi.ada-personal.yaml", "Pulumi.eve-gcp-personal.yaml"):
        (tmp_path / file).touch()
    with pytest.raises(CallerError) as refused:
        meant(tmp_path, None, None)
    assert str(refused.value).endswith("Say which: --cloud aws --name ada, --cloud gcp --name eve.")
