"""What people give `ops advise` wrongly: each is one clear sentence, exit code 2, and no file changes."""

import pytest

from ops import project
from ops.advise import command
from tests.ops.test_advise import AWS, GCP, run
from tidemill.errors import CallerError

OFF = "--offline"


def replaced(old: str, new: str, text: str = AWS) -> str:
    assert old in text
    return text.replace(old, new)


CASES: dict[str, tuple[list[str], str, str]] = {
    "1 queue that the stack does not have": (
        ["cpy", OFF],
        AWS,
        "has no such queue. Did you mean cpu? Queues: cpu,",
    ),
    "2 no queue": ([OFF], AWS, "Missing argument 'QUEUE'"),
    "3 stack that does not exist": (["cpu", OFF, "--stack", "vision-dav"], AWS, "Did you mean vision-dev?"),
    "4 unknown region": (
        ["cpu", OFF],
        replaced("us-west-2 ", "us-wast-2 "),
        'aws:region: "us-wast-2" is not allowed. Allowed: a region of AWS. Did you mean us-west-2?',
    ),
    "5 zone for a region": (
        ["cpu", OFF],
        replaced("us-west-2 ", "us-west-2a "),
        'aws:region: "us-west-2a" is not allowed. Allowed: a region of AWS. It is a zone. Did you mean us-west-2?',
    ),
    "6 zone's id for a region": (["cpu", OFF], replaced("us-west-2 ", "usw2-az1 "), "Name a region by its id."),
    "7 region of the other cloud": (
        ["cpu", OFF],
        replaced("us-west-2 ", "us-central1 "),
        "It is a region of GCP.",
    ),
    "8 no region": (
        ["cpu", OFF],
        replaced("aws:region", "aws:profile"),
        "does not set aws:region",
    ),
    "9 region that is no text": (["cpu", OFF], replaced("us-west-2 ", "[us-west-2] "), "does not set aws:region"),
    "10 unknown family": (["cpu", OFF], replaced("- c6i ", "- c6j "), 'families[0]: "c6j" is not allowed'),
    "11 not YAML": (["cpu", OFF], replaced("config:", "config: ["), "Pulumi.vision-dev.yaml: line"),
    "12 a key twice": (["cpu", OFF], replaced("    gpu:", "    cpu:"), "the key `cpu` is there twice"),
    "13 empty file": (["cpu", OFF], "", "tidemill:team is missing"),
    "14 unknown option": (["cpu", OFF, "--writ"], AWS, "No such option"),
}


def test_there_are_so_many_with_those_of_tests_below() -> None:
    assert [name.split()[0] for name in CASES] == [str(number) for number in range(1, len(CASES) + 1)]


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    return tmp_path


def refused(path, *arguments, says: str) -> None:
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    code, output = run(*arguments, stack=path.stem.removeprefix("Pulumi."))
    assert code == 2, output
    assert says in " ".join(output.split())
    assert output.count("Error:") == 1
    assert "Traceback" not in output
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_one_clear_error_and_the_file_stays(name, stacks):
    arguments, text, says = CASES[name]
    path = stacks / "Pulumi.vision-dev.yaml"
    path.write_text(text)
    refused(path, *arguments, says=says)


def test_a_file_that_is_not_text(stacks):
    path = stacks / "Pulumi.vision-dev.yaml"
    path.write_bytes(b"\xff\xfe")
    refused(path, "cpu", OFF, says="UTF-8")


def test_a_cloud_that_cannot_be_asked_at_all(stacks, monkeypatch):
    class Refuses:
        def ask(self, _):
            raise CallerError("boto3 is missing.", "Install tidemill[aws].")

    monkeypatch.setattr(command, "open_source", lambda *_: Refuses())
    path = stacks / "Pulumi.vision-dev.yaml"
    path.write_text(AWS)
    refused(path, "cpu", "--live", says="boto3 is missing. Install tidemill[aws]. Or use the tables alone: --offline.")


def test_a_stack_of_gcp_without_its_region(stacks):
    path = stacks / "Pulumi.vision-gcp-dev.yaml"
    path.write_text(replaced("  gcp:region: us-central1\n", "  aws:region: us-west-2\n", GCP))
    refused(path, "cpu", OFF, says="does not set gcp:region")
