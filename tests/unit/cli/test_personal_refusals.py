"""`tidemill up` and `down` with an engine that makes nothing: what they refuse before anything is made or deleted."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber
from pulumi.automation import errors

import tidemill
from components.personal import runs
from tidemill.cli import main
from tidemill.cli import personal as cli
from tidemill.cli.commands import down
from tidemill.clouds.aws import homes
from tidemill.clouds.findings import Finding
from tidemill.clouds.homes import FoundHome
from tidemill.errors import CallerError, CloudError

ACCOUNT, REGION = "123456789012", "us-west-2"
BUCKET = "tidemill-ada-state-bucket-0123abc"
HOME = FoundHome(BUCKET, REGION, f"s3://{BUCKET}", "awskms:///key")
LOCKED = """code: 255
stdout:
stderr: error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the \
lock file with `pulumi cancel`.
  s3://bucket/.pulumi/locks/organization/tidemill/ada-personal/1.json: created by ada@laptop (pid 7) at 2026-01-01
"""
"""Source: checkForLock in pulumi/pkg/backend/diy/lock.go."""


class FakeStack:
    """A stack that is there, with that of its home, and records what is done to it."""

    def __init__(self, done: list[str]) -> None:
        self._done = done
        stacks = [SimpleNamespace(name=name) for name in ("ada-personal", "organization/tidemill-home/tidemill-ada")]
        self.workspace = SimpleNamespace(list_stacks=lambda **_: stacks)

    def preview(self, **_: Any) -> Any:
        self._done.append("preview")
        return SimpleNamespace(change_summary={"create": 1})

    def up(self, **_: Any) -> Any:
        self._done.append("up")
        raise AssertionError

    def outputs(self) -> dict[str, Any]:
        return {}

    def export_stack(self) -> Any:
        return SimpleNamespace(deployment={})

    def destroy(self, **_: Any) -> None:
        self._done.append("destroy")
        raise AssertionError


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the engine has done, in an account that has a home."""
    found: list[str] = []
    for part in ("home", "stack"):
        module = import_module(f"components.personal.{part}")
        monkeypatch.setattr(module, "open_stack", lambda *_, **__: FakeStack(found))
    monkeypatch.setattr("components.personal.engine.find", object)
    monkeypatch.setattr(cli, "components", lambda _: import_module("components.personal"))
    monkeypatch.setattr(homes, "log_in", lambda account, region: (ACCOUNT, region or REGION))
    monkeypatch.setattr(homes, "find_home", lambda *_: HOME)
    return found


@pytest.fixture
def file(done: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The stack file, as the first `up` has written it."""
    monkeypatch.setattr(homes, "find_home", lambda *_: None)
    assert main(["up", "--name", "ada", "--folder", str(tmp_path), "--preview", "--email", "ada@example.com"]) == 0
    monkeypatch.setattr(homes, "find_home", lambda *_: HOME)
    done.clear()
    return tmp_path / "Pulumi.ada-personal.yaml"


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Types a command that is refused as the caller's mistake, and returns what it says."""

    def run(*words: str, code: int = 2) -> str:
        capsys.readouterr()
        verb, *rest = words
        assert main([verb, "--name", "ada", "--folder", str(tmp_path), *rest]) == code
        return capsys.readouterr().err

    return run


def changed(file: Path, **keys: Any) -> None:
    content = yaml.safe_load(file.read_text())
    content["config"] |= keys
    file.write_text(yaml.safe_dump(content))


@pytest.mark.parametrize("missing", ["tidemill_pulumi", "pulumi", "pulumi_gcp", "pulumi_policy"])
@pytest.mark.parametrize("words", [("up", "--yes"), ("down",)])
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, typed: Any, missing: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == missing else object())
    said = typed(*words, "--cloud", "gcp")
    assert f"`tidemill up` makes a pipeline with Pulumi, and {missing} is not installed." in said
    assert "pip install 'tidemill[gcp]' 'tidemill-pulumi[gcp]'" in said


def test_without_a_yes_nothing_is_made(typed: Any, done: list[str]) -> None:
    assert "--yes" in typed("up", "--email", "ada@example.com")
    assert done == []


def test_the_first_up_needs_an_address(typed: Any, done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "find_home", lambda *_: None)
    assert "--email" in typed("up", "--yes")
    assert done == []


@pytest.mark.parametrize("words", [("up", "--yes"), ("down", "--confirm", "ada-personal")])
def test_a_wrong_key_is_told_before_anything_changes(
    typed: Any, file: Path, done: list[str], words: tuple[str, ...]
) -> None:
    changed(file, **{"tidemill:budgets": {}})
    assert "budgets" in typed(*words)
    assert done == []


def test_another_account_and_another_region_are_refused(typed: Any, file: Path, done: list[str]) -> None:
    assert "us-west-2" in typed("up", "--yes", "--region", "eu-west-1")
    changed(file, **{"aws:allowedAccountIds": ["210987654321"]})
    assert "210987654321" in typed("up", "--yes")
    assert done == []


def test_down_asks_for_the_name(typed: Any, file: Path, done: list[str]) -> None:
    assert "--confirm ada-personal" in typed("down")
    assert "ada-personal" in typed("down", "--confirm", "other")
    assert done == []


@pytest.mark.parametrize("words", [("up", "--yes", "--email", "b@example.com"), ("down", "--confirm", "ada-personal")])
def test_the_pipeline_of_another_person_with_the_same_login_name_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: Path,
    done: list[str],
    words: tuple[str, ...],
) -> None:
    """With a stack file of a preview, and without. One that `up` has tied to the key is of the pipeline."""
    monkeypatch.setattr("getpass.getuser", lambda: "ada")

    def typed() -> str:
        main([*words, "--folder", str(file.parent)])
        return capsys.readouterr().err

    used = f"secretsprovider: {HOME.secrets_provider}\n{file.read_text()}"
    for there in (file.write_text, lambda _: file.unlink()):
        there(file.read_text())
        assert "If it is yours, give --name ada. Otherwise give another --name." in typed()
    assert done == []
    file.write_text(used)
    assert "If it is yours" not in typed()


def test_a_login_that_has_expired_is_told_with_the_command_that_renews_it(
    monkeypatch: pytest.MonkeyPatch, typed: Any
) -> None:
    monkeypatch.setattr(cli, "components", lambda _: import_module("components.personal"))
    expired = Finding("login", "fault", "The AWS login has expired.", "aws sso login --profile ada")
    monkeypatch.setattr(homes, "default_session", object)
    monkeypatch.setattr(homes, "check_login", lambda _: (expired, None))
    assert "The AWS login has expired. Run `aws sso login --profile ada`." in typed("up", "--yes", code=3)


def test_who_may_not_make_the_roles_of_batch_and_spot_makes_nothing(
    monkeypatch: pytest.MonkeyPatch, typed: Any, file: Path, done: list[str]
) -> None:
    iam: Any = boto3.client("iam", region_name=REGION, aws_access_key_id="A", aws_secret_access_key="s")
    monkeypatch.setattr(homes, "default_session", object)
    monkeypatch.setattr(homes, "client", lambda *_: iam)
    with Stubber(iam) as stub:
        stub.add_response("list_roles", {"Roles": []})
        stub.add_client_error("create_service_linked_role", "AccessDenied", "not authorized", 403)
        assert "iam:CreateServiceLinkedRole" in typed("up", "--yes", code=3)
    assert done == ["preview"]


def test_the_bucket_of_a_stranger_is_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account lists its own buckets; one that somebody else has taken since is refused by its owner's number."""
    s3: Any = boto3.client("s3", region_name=REGION, aws_access_key_id="A", aws_secret_access_key="s")
    monkeypatch.setattr(homes, "default_session", lambda: SimpleNamespace(region_name=REGION))
    monkeypatch.setattr(homes, "client", lambda *_: s3)
    owned = {"Bucket": BUCKET, "ExpectedBucketOwner": ACCOUNT}
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "key"}}
    with Stubber(s3) as stub:
        stub.add_response("list_buckets", {"Buckets": [{"Name": BUCKET}, {"Name": "tidemill-ada-other"}]})
        stub.add_response("get_bucket_location", {"LocationConstraint": REGION}, owned)
        stub.add_response("get_bucket_encryption", {"ServerSideEncryptionConfiguration": {"Rules": [rule]}}, owned)
        found = homes.find_home("ada", ACCOUNT)
        stub.add_response("list_buckets", {"Buckets": [{"Name": BUCKET}]})
        stub.add_client_error("get_bucket_location", "AccessDenied", http_status_code=403, expected_params=owned)
        with pytest.raises(CloudError, match="s3:GetBucketLocation is denied"):
            homes.find_home("ada", ACCOUNT)
    assert found is not None
    assert found.bucket == BUCKET


def test_a_lock_is_told_with_who_holds_it() -> None:
    locked: Any = LOCKED
    with pytest.raises(CallerError, match=r"is at this pipeline \(ada@laptop \(pid 7\).*--unlock"), runs.told():
        raise errors.ConcurrentUpdateError(locked)


@pytest.mark.parametrize(
    ("result", "reason", "fix"),
    [
        ("\n code: -9\n stdout: \n stderr: \n", "something killed it", "goes on from there"),
        (
            "\n code: 255\n stdout: \n stderr: error: 409: role r already exists.\n",
            "409: role r already exists",
            "Delete it in the cloud's console",
        ),
    ],
)
def test_why_the_engine_stopped_is_told_with_what_to_do(result: str, reason: str, fix: str) -> None:
    failed: Any = result
    with pytest.raises(CloudError, match=f"Pulumi stopped: {reason}.*{fix}"), runs.told():
        raise errors.CommandError(failed)


def test_down_names_a_job_that_cannot_be_read_before_it_asks(tmp_path: Path) -> None:
    target = tidemill.Pipeline.local(tmp_path / "store", workers=1)
    target.store.put("jobs/tiles-00000000/job.json", b"{}")
    said: list[str] = []
    stack = SimpleNamespace(pipeline_uri=(tmp_path / "store" / "pipeline.json").as_uri)
    assert down.look(stack, said.append, cancel_jobs=False) == []
    assert said[0].startswith("A job is passed over: ")
    assert "tiles-00000000" in said[0]
    assert "goes, with 0 jobs" in said[1]
