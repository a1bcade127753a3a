"""CI's whole way of a change, as one run of the workflows' own commands, with an account per team.

The change edits the stacks of two teams and removes the file of a third. Each account is a localcloud of its own: a
login to one, its keys and its buckets are unknown in the other, so that a step with the wrong variable cannot pass.

It does not prove how GitHub orders jobs, what its tokens hold, that STS takes them for a role, or how the provider
treats `aws:allowedAccountIds`, which localcloud's accepts and leaves alone. Here a role's session is given to whoever
asks for it, and an account has its own endpoint; on AWS the role's ARN alone leads to the account.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localcloud import cloud as module
from localcloud.cloud import Cloud
from ops.project import ROOT
from tests.engine.backends.workflows import Workflows
from tests.engine.inventory import client
from tests.engine.test_review import copy_code, git
from tests.harness import Project, typed, warmed
from tests.ops.ci.test_github import TOKEN, Fake, fake  # noqa: F401

AUDIO, VIDEO = "123456789012", "222222222222"
STACKS = {"audio-dev": AUDIO, "old-dev": AUDIO, "video-dev": VIDEO}
QUEUES = {
    "cpu": {
        "images": {"default": "registry://a:1"},
        "machines": {"families": ["c7i", "m7i"], "cpus": {"min": 4, "max": 16}},
        "capacity": [{"market": "spot", "max_cpus": 64}],
    }
}
REPOSITORY = "team/infra"


@pytest.fixture(scope="module")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cloud]]:
    """The accounts, by number."""
    second = Cloud(tmp_path_factory.mktemp("second"))
    with Cloud(tmp_path_factory.mktemp("first")) as first:
        with pytest.MonkeyPatch.context() as patched:
            # A fork has the account of the process that it comes from.
            patched.setattr(module, "spawn", subprocess.Popen)
            patched.setenv("MOTO_ACCOUNT_ID", VIDEO)
            second.start(bound=True)
        try:
            yield {AUDIO: first, VIDEO: second}
        finally:
            second.stop()


@pytest.fixture(scope="module")
def homes(clouds, tmp_path_factory) -> dict[str, dict]:
    """The outputs of each account's bootstrap stack."""
    found = {}
    for number, cloud in clouds.items():
        project = Project(tmp_path_factory.mktemp("account"), cloud.env, "account", ROOT / "bootstrap")
        with project.config() as config:
            config["aws:region"] = cloud.env["AWS_REGION"]
            config["tidemill-bootstrap:ci"] = {"repository": REPOSITORY, "environments": ["dev"]}
        project.up().ok()
        found[number] = project.outputs()
        # localcloud has one name for all buckets.
        found[number]["ci"]["backend_url"] += "&use_path_style=true"
    return found


@pytest.fixture(scope="module")
def checkout(clouds, homes, tmp_path_factory) -> Path:
    """A checkout of main, whose stacks an administrator of each account has brought up."""
    folder = tmp_path_factory.mktemp("checkout")
    copy_code(folder)
    for stack, account in STACKS.items():
        env = administrator(clouds, homes, account)
        words = ["pulumi", "stack", "init", stack, "--secrets-provider", homes[account]["secrets_provider"]]
        subprocess.run([*words, "--non-interactive"], cwd=folder, env=env, check=True, timeout=300)
        path = folder / "stacks" / f"Pulumi.{stack}.yaml"
        config = {
            "aws:region": env["AWS_REGION"],
            "aws:allowedAccountIds": [account],
            "tidemill:team": stack.removesuffix("-dev"),
            "tidemill:environment": "dev",
            "tidemill:permission_boundary": homes[account]["permission_boundaries"]["dev"],
            "tidemill:queues": QUEUES,
        }
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "config": config}))
        code, text = typed("-m", "ops", "deploy", "--stack", stack, cwd=folder, env=env)
        assert code == 0, text
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    return folder


def administrator(clouds, homes, account: str) -> dict[str, str]:
    return {**warmed(clouds[account].env), "PULUMI_BACKEND_URL": homes[account]["ci"]["backend_url"]}


@pytest.fixture
def ci(clouds, homes, checkout, fake: Fake) -> Workflows:  # noqa: F811
    """The workflows, with a variable for each team, one for all others of the environment, and no login but theirs."""

    def log_in(role: str) -> dict[str, str]:
        cloud = clouds[role.split(":")[4]]
        key = cloud.control("credentials", role=role)
        session = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        own = {name: value for name, value in cloud.settings.items() if name.startswith("AWS_")}
        return {**own, **session, "AWS_SESSION_TOKEN": key["Token"]}

    env = warmed(clouds[AUDIO].env)
    ours = ("AWS_", "TIDEMILL_STACK_", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE")
    env = {name: value for name, value in env.items() if not name.startswith(ours)}
    env |= {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": fake.api}
    audio, video = (json.dumps(homes[account]["ci"]) for account in (AUDIO, VIDEO))
    variables = {"TIDEMILL_STACK_AUDIO_DEV": audio, "TIDEMILL_STACK_VIDEO_DEV": video, "TIDEMILL_AWS_DEV": audio}
    return Workflows(checkout, env, log_in, {"repository": REPOSITORY, "token": TOKEN}, variables)


@pytest.fixture(scope="module")
def main(checkout) -> str:
    """The commit of main that the change begins at; the checkout is on the change's branch."""
    words = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    git(checkout, "switch", "-qc", "change")
    for stack in ("audio-dev", "video-dev"):
        path = checkout / "stacks" / f"Pulumi.{stack}.yaml"
        path.write_text(path.read_text().replace("max_cpus: 64", "max_cpus: 32"))
    (checkout / "stacks" / "Pulumi.old-dev.yaml").unlink()
    git(checkout, "commit", "-qam", "change")
    return commit


def denied(clouds) -> list[dict[str, str]]:
    return [each for cloud in clouds.values() for each in cloud.control("denied")]


def max_cpus(cloud: Cloud) -> dict[str, int]:
    """The size of each compute environment in an account, by its team."""
    found = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    return {each["computeEnvironmentName"].partition("-")[0]: each["computeResources"]["maxvCpus"] for each in found}


def test_a_pull_request_is_previewed_in_each_teams_account(ci, clouds, main, fake):  # noqa: F811
    head = {"head": {"repo": {"full_name": REPOSITORY}}, "user": {"login": "somebody"}}
    workflow = ci.started(pull_request={"number": 7, "base": {"sha": main}, **head})
    workflow.run("preview", "affected").ok()
    rows = workflow.rows("preview", "preview")
    assert {row["stack"]: row["login"]["preview"].split(":")[4] for row in rows} == STACKS
    for index, _ in enumerate(rows):
        workflow.run("preview", "preview", index).ok()
    review = workflow.run("preview", "review")
    assert review.code == 5, f"a removed stack that is still up is critical\n{review.text}"
    (comment,) = fake.comments
    assert comment["on"] == 7
    for stack in STACKS:
        assert f"`{stack}`" in comment["body"]
    assert denied(clouds) == [], "the readers may do all that previews ask"


def test_a_merge_is_deployed_in_each_teams_account_and_a_removed_stack_is_red(ci, clouds, main):
    git(ci.checkout, "switch", "-q", "main")
    git(ci.checkout, "merge", "-q", "--ff-only", "change")
    workflow = ci.started(before=main)
    workflow.run("deploy", "stacks").ok()
    (removed,) = workflow.rows("deploy", "removed")
    assert removed["stack"] == "old-dev"
    red = workflow.run("deploy", "removed", 0)
    assert (red.code, "`old-dev`" in red.text, "`audio-dev`" in red.text) == (1, True, False), red.text
    assert [row["stack"] for row in workflow.rows("deploy", "plan")] == ["audio-dev", "video-dev"]
    for index in range(2):
        workflow.run("deploy", "plan", index).ok()
    assert (max_cpus(clouds[AUDIO]), max_cpus(clouds[VIDEO])) == ({"audio": 64, "old": 64}, {"video": 64})
    workflow.run("deploy", "planned").ok()
    for index, row in enumerate(workflow.rows("deploy", "deploy")):
        workflow.run("deploy", "deploy", index).ok()
        assert max_cpus(clouds[STACKS[row["stack"]]])[row["stack"].removesuffix("-dev")] == 32
    assert (max_cpus(clouds[AUDIO]), max_cpus(clouds[VIDEO])) == ({"audio": 32, "old": 64}, {"video": 32})
    assert denied(clouds) == [], "the writers may do all that deploys ask"


def test_a_login_of_the_other_team_plans_nothing(ci, clouds, homes):
    """As when somebody gives a stack the other account's variable, and its file names no account."""
    path = ci.checkout / "stacks" / "Pulumi.video-dev.yaml"
    text = path.read_text()
    wrong = {**ci.variables, "TIDEMILL_STACK_VIDEO_DEV": json.dumps(homes[AUDIO]["ci"])}
    workflow = Workflows(ci.checkout, ci.env, ci.log_in, ci.github, wrong).started(inputs={"environment": "dev"})
    refused = workflow.run("deploy", "stacks")
    assert refused.code == 2
    assert f"TIDEMILL_STACK_VIDEO_DEV is a login to the account {AUDIO}" in refused.text
    settings = yaml.safe_load(text)
    del settings["config"]["aws:allowedAccountIds"]
    path.write_text(yaml.safe_dump(settings))
    try:
        workflow.run("deploy", "stacks").ok()
        rows = [row["stack"] for row in workflow.rows("deploy", "plan")]
        planned = workflow.run("deploy", "plan", rows.index("video-dev"))
    finally:
        path.write_text(text)
    assert planned.code != 0
    assert "no stack named 'video-dev' found" in planned.text


def test_the_night_compares_each_stack_and_names_what_has_no_file(ci, clouds, homes, fake):  # noqa: F811
    workflow = ci.started()
    workflow.run("drift", "stacks").ok()
    for index, row in enumerate(workflow.rows("drift", "drift")):
        assert "There is no drift." in workflow.run("drift", "drift", index).ok().text, row["stack"]
    told = {row["preview"].split(":")[4]: row["backend_url"] for row in workflow.rows("drift", "orphans")}
    assert told == {account: homes[account]["ci"]["backend_url"] for account in (AUDIO, VIDEO)}
    for index, _ in enumerate(told):
        workflow.run("drift", "orphans", index).ok()
    (issue,) = fake.issues
    assert (issue["state"], "`old-dev`" in issue["body"]) == ("open", True)
    assert "audio-dev" not in issue["body"]

    # As the issue says: the file comes back, an administrator destroys the stack, and the file goes again.
    path = "stacks/Pulumi.old-dev.yaml"
    git(ci.checkout, "checkout", "-q", "HEAD^", "--", path)
    settings = yaml.safe_load((ci.checkout / path).read_text())
    settings["config"]["tidemill:allow"] = ["purge"]
    (ci.checkout / path).write_text(yaml.safe_dump(settings))
    env = administrator(clouds, homes, AUDIO)
    code, text = typed("-m", "ops", "deploy", "--stack", "old-dev", cwd=ci.checkout, env=env)
    assert code == 0, text
    words = ["pulumi", "destroy", "--yes", "--skip-preview", "--stack", "old-dev", "--non-interactive"]
    subprocess.run(words, cwd=ci.checkout, env=env, check=True, timeout=300)
    git(ci.checkout, "rm", "-qf", path)
    assert (max_cpus(clouds[AUDIO]), max_cpus(clouds[VIDEO])) == ({"audio": 32}, {"video": 32})
    for index, _ in enumerate(told):
        workflow.run("drift", "orphans", index).ok()
    assert [each["state"] for each in fake.issues] == ["closed"]
