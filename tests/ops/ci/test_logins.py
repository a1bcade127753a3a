"""Which login CI takes for a stack, when each account has one of its own. No cloud is asked."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops import affected as module
from ops import project
from ops.affected import affected

STACK = "config:\n  tidemill:team: {team}\n  tidemill:environment: prod\n{more}  tidemill:queues: {queues}\n"
QUEUES = (
    "{cpu: {images: {default: 'registry://a:1'}, machines: {families: [c7g]}, "
    "capacity: [{market: spot, max_cpus: 64}]}}"
)
ACCOUNTS = {"audio": "111111111111", "video": "222222222222"}


def login(account: str) -> str:
    role = f"arn:aws:iam::{account}:role/tidemill-ci"
    content = {"backend_url": f"s3://state-{account}?region=us-west-2", "preview": f"{role}-preview-1"}
    return json.dumps({**content, "deploy": {"prod": f"{role}-deploy-prod-1"}})


def gcp_login(home: str) -> str:
    accounts = {"preview": f"p@{home}.iam.gserviceaccount.com", "deploy": {"prod": f"d@{home}.iam.gserviceaccount.com"}}
    return json.dumps({"backend_url": f"gs://state-{home}", "provider": "pool", **accounts})


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The stacks of two teams, each with an account of its own."""
    for team, account in ACCOUNTS.items():
        write(tmp_path, team, f"  aws:region: us-west-2\n  aws:allowedAccountIds: ['{account}']\n")
    monkeypatch.setattr(project, "STACKS", tmp_path)
    monkeypatch.setattr(module.stacks, "__defaults__", (tmp_path,))
    return tmp_path


def write(folder: Path, team: str, more: str) -> None:
    text = STACK.format(team=team, more=more, queues=QUEUES)
    (folder / f"Pulumi.{team}-prod.yaml").write_text(text)


def run(monkeypatch, **variables: str):
    monkeypatch.setenv("CI_VARIABLES", json.dumps(variables))
    return CliRunner().invoke(affected, ["--all", "--with-login", "--json"])


def test_two_accounts_of_one_environment_have_their_own_logins(folder, monkeypatch):
    audio, video = (login(account) for account in ACCOUNTS.values())
    done = run(monkeypatch, TIDEMILL_STACK_AUDIO_PROD=audio, TIDEMILL_AWS_PROD=video)
    assert done.exit_code == 0, done.output
    found = {row["stack"]: row for row in json.loads(done.stdout)}
    assert {name: row["home"] for name, row in found.items()} == {
        "audio-prod": "TIDEMILL_STACK_AUDIO_PROD",
        "video-prod": "TIDEMILL_AWS_PROD",
    }
    for team, account in ACCOUNTS.items():
        identities = found[f"{team}-prod"]["login"]
        assert all(account in identities[key] for key in ("backend_url", "preview", "deploy"))


def test_a_missing_login_is_named_with_its_variables(folder, monkeypatch):
    done = run(monkeypatch, TIDEMILL_STACK_AUDIO_PROD=login(ACCOUNTS["audio"]))
    assert [row["stack"] for row in json.loads(done.stdout)] == ["audio-prod"]
    assert (
        done.stderr
        == "video-prod: no login: TIDEMILL_STACK_VIDEO_PROD and TIDEMILL_AWS_PROD are not set (docs/ci.md).\n"
    )


def test_a_host_that_gives_each_variable_by_its_name_needs_no_json(folder, monkeypatch):
    monkeypatch.delenv("CI_VARIABLES", raising=False)
    monkeypatch.setenv("TIDEMILL_STACK_VIDEO_PROD", login(ACCOUNTS["video"]))
    done = CliRunner().invoke(affected, ["--all", "--with-login", "--json"])
    assert [row["home"] for row in json.loads(done.stdout)] == ["TIDEMILL_STACK_VIDEO_PROD"]


@pytest.mark.parametrize(
    ("more", "home", "says"),
    [
        (
            "  aws:region: us-west-2\n  aws:allowedAccountIds: ['333333333333']\n",
            login("222222222222"),
            "is a login to the account 222222222222; aws:allowedAccountIds: 333333333333",
        ),
        (
            "  aws:region: us-west-2\n  aws:allowedAccountIds: '[\"333333333333\"]'\n",
            login("222222222222"),
            "aws:allowedAccountIds: 333333333333",
        ),
        (
            "  aws:region: us-west-2\n  aws:forbiddenAccountIds: ['222222222222']\n",
            login("222222222222"),
            "which is one of aws:forbiddenAccountIds",
        ),
    ],
)
def test_a_login_to_another_account_is_refused_before_anything_happens(folder, monkeypatch, more, home, says):
    write(folder, "video", more)
    done = run(monkeypatch, TIDEMILL_AWS_PROD=home, TIDEMILL_STACK_AUDIO_PROD=login(ACCOUNTS["audio"]))
    assert done.exit_code == 2
    assert says in done.output
    assert "video-prod: TIDEMILL_AWS_PROD" in done.output
    assert "Set TIDEMILL_STACK_VIDEO_PROD to the output `ci`" in done.output


def test_a_login_to_another_project_is_refused_on_gcp_too(folder, monkeypatch):
    place = "  tidemill:cloud: gcp\n  gcp:region: us-central1\n  gcp:project: video-home\n"
    text = STACK.format(team="video", more=place, queues=QUEUES.replace("c7g", "n2"))
    (folder / "Pulumi.video-prod.yaml").write_text(text)
    done = run(monkeypatch, TIDEMILL_GCP_PROD=gcp_login("video-home"))
    assert done.exit_code == 0, done.output
    done = run(monkeypatch, TIDEMILL_GCP_PROD=gcp_login("audio-home"))
    assert done.exit_code == 2
    assert "a login to the project audio-home; gcp:project: video-home" in done.output


def test_a_stack_that_assumes_another_role_is_left_to_its_provider(folder, monkeypatch):
    """Its account is that of the last role; `aws:allowedAccountIds` is about that one."""
    role = "  aws:assumeRoles: [{roleArn: 'arn:aws:iam::222222222222:role/x'}]\n"
    write(folder, "video", f"  aws:region: us-west-2\n  aws:allowedAccountIds: ['222222222222']\n{role}")
    done = run(monkeypatch, TIDEMILL_AWS_PROD=login("444444444444"), TIDEMILL_STACK_AUDIO_PROD=login(ACCOUNTS["audio"]))
    assert done.exit_code == 0, done.output
