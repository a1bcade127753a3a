"""Stacks of bootstrap/ and shared/ in git: checked, affected and named as those of stacks/. No engine runs."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ops import affected as module
from ops import check, orphans, project
from ops.affected import Stack, affected, why
from ops.estimate import estimate
from tests.unit.config.examples import GOOD
from tidemill import prices

ACCOUNT = (
    "config:\n  aws:region: us-west-2\n  tidemill-bootstrap:ci: {repository: example/infra, environments: [prod]}\n"
)
NETWORK = "config:\n  aws:region: us-west-2\n  tidemill-shared:network: {egress: nat}\n"
HOMES = [Stack(name, "aws", "", "us-west-2", "") for name in ("bootstrap/account", "shared/prod")]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A checkout with the stack of an account and a shared network."""
    for home, name, text in (("stacks", "", ""), ("bootstrap", "account", ACCOUNT), ("shared", "prod", NETWORK)):
        (tmp_path / home).mkdir()
        if name:
            (tmp_path / home / f"Pulumi.{name}.yaml").write_text(text)
    monkeypatch.setattr(project, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(module.stacks, "__defaults__", (tmp_path / "stacks",))
    return tmp_path


def checked(folder: Path, home: str, text: str) -> str:
    name = {"bootstrap": "account", "shared": "prod"}[home]
    (folder / home / f"Pulumi.{name}.yaml").write_text(text)
    done = CliRunner().invoke(check.check, [])
    assert done.exit_code == (2 if "Pulumi." in done.output else 0), done.output
    return done.output


def test_files_of_an_account_and_a_shared_network_are_valid_and_affected(folder, monkeypatch):
    assert CliRunner().invoke(check.check, []).output == "All 2 stack files are valid.\n"
    assert CliRunner().invoke(check.check, ["bootstrap/account"]).output == "Pulumi.account.yaml is valid.\n"
    home = json.dumps({"backend_url": "s3://state", "preview": "reader", "deploy": {"prod": "writer"}})
    monkeypatch.setenv(
        "CI_VARIABLES", json.dumps({"TIDEMILL_STACK_BOOTSTRAP_ACCOUNT": home, "TIDEMILL_AWS_PROD": home})
    )
    rows = {row["stack"]: row for row in json.loads(CliRunner().invoke(affected, ["--all", "--json"]).stdout)}
    assert set(rows) == {"bootstrap/account", "shared/prod"}
    assert rows["bootstrap/account"]["login"] == {
        "backend_url": "s3://state", "provider": "", "preview": "reader", "deploy": ""
    }  # fmt: skip
    assert rows["shared/prod"]["login"] is None, "no environment's login is an administrator's stack's"
    assert rows["shared/prod"]["home"] == "TIDEMILL_STACK_SHARED_PROD"


def test_a_teams_stack_gets_no_login_of_an_administrators(folder, monkeypatch):
    """`bootstrap/prod` and `bootstrap-prod` have one variable: nobody would see whose it is."""
    (folder / "bootstrap" / "Pulumi.prod.yaml").write_text(ACCOUNT)
    keys = {f"tidemill:{key}": value for key, value in {**GOOD, "team": "bootstrap", "environment": "prod"}.items()}
    keys |= {"aws:region": "us-west-2", "tidemill:budget": {"monthly_usd": 10, "notify": ["a@example.com"]}}
    (folder / "stacks" / "Pulumi.bootstrap-prod.yaml").write_text(yaml.safe_dump({"config": keys}))
    home = json.dumps({"backend_url": "s3://state", "preview": "reader", "deploy": {"prod": "writer"}})
    for name, code in (("TIDEMILL_AWS_PROD", 0), ("TIDEMILL_STACK_BOOTSTRAP_PROD", 2)):
        monkeypatch.setenv("CI_VARIABLES", json.dumps({name: home}))
        done = CliRunner().invoke(affected, ["--all", "--json"])
        assert done.exit_code == code, done.output
    assert "TIDEMILL_STACK_BOOTSTRAP_PROD would be the login of bootstrap-prod and of bootstrap/prod" in done.output


@pytest.mark.parametrize(
    ("home", "text", "says"),
    [
        (
            "bootstrap",
            ACCOUNT.replace("environments", "enviroments"),
            "tidemill-bootstrap:ci.enviroments is not a known",
        ),
        ("bootstrap", ACCOUNT.replace("example/infra", "infra"), 'tidemill-bootstrap:ci.repository: "infra" is not'),
        ("bootstrap", ACCOUNT.replace("tidemill-bootstrap:", "tidemill:"), "Did you mean 'tidemill-bootstrap:ci'"),
        ("bootstrap", ACCOUNT.replace("bootstrap:ci", "bootstrap:cli"), "Did you mean 'ci'"),
        ("bootstrap", ACCOUNT.replace("  aws:region: us-west-2\n", ""), "aws:region is missing"),
        ("bootstrap", ACCOUNT + "  aws:regoin: us-west-2\n", "aws:regoin is not a setting of the aws provider"),
        ("bootstrap", ACCOUNT + "  aws:secretKey: hunter22\n", "a text of 8 characters (not shown)"),
        ("bootstrap", ACCOUNT + "  tidemill-bootstrap:purge: {secure: v1:abc}\n", "a secret value (not shown)"),
        ("bootstrap", ACCOUNT + "  tidemill-bootstrap:services: [compute.googleapis.com]\n", "only on GCP"),
        (
            "bootstrap",
            ACCOUNT + "  tidemill-bootstrap:replica: us-west-2\n",
            'tidemill-bootstrap:replica: "us-west-2" is not allowed. Allowed: another region than us-west-2',
        ),
        ("bootstrap", ACCOUNT + "  tidemill-bootstrap:purge_replica: true\n", "true only with a replica"),
        ("bootstrap", ACCOUNT + "  tidemill-bootstrap:replica: cn-north-1\n", "in the same partition of AWS"),
        ("bootstrap", ACCOUNT + "  tidemill-bootstrap:replica: us-esat-1\n", "a region of AWS. Did you mean us-"),
        (
            "bootstrap",
            ACCOUNT + "  tidemill-bootstrap:replica: us-west-9\n",
            '"us-west-9" is not allowed. Allowed: a region',
        ),
        ("bootstrap", ACCOUNT.replace("us-west-2", "us-west-9"), 'aws:region: "us-west-9" is not allowed'),
        ("shared", NETWORK.replace("us-west-2", "us-west-9"), 'aws:region: "us-west-9" is not allowed'),
        (
            "bootstrap",
            "config: {gcp:region: us-central1, tidemill-bootstrap:cloud: gcp, tidemill-bootstrap:replica: us-east-1}\n",
            "a bucket on GCP keeps its location",
        ),
        ("shared", NETWORK.replace("nat", "public"), "tidemill-shared:network.egress"),
        ("shared", NETWORK.replace("egress", "egres"), "tidemill-shared:network.egres is not a known key"),
        ("shared", NETWORK + "  tidemill-shared:cloud: gcp\n", "gcp:"),
    ],
)
def test_a_mistake_in_such_a_file_is_one_line(folder, home, text, says):
    told = checked(folder, home, text)
    assert says in told
    assert "hunter22" not in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("bootstrap/Pulumi.account.yaml", ["bootstrap/account"]),
        ("bootstrap/aws.py", ["bootstrap/account"]),
        ("bootstrap/gcp.py", []),
        # A cloud's room is imported by computed names, so all of it counts.
        ("components/aws/ci/policies.py", ["bootstrap/account", "shared/prod"]),
        ("components/gcp/store.py", []),
        ("policy/environments/account.json", ["bootstrap/account", "shared/prod"]),
        ("shared/Pulumi.other.yaml", []),
        ("docs/ci.md", []),
    ],
)
def test_what_their_programs_read_affects_them(path, names):
    assert sorted(why([path], HOMES)) == names


def test_a_removed_file_of_theirs_is_an_orphan_with_the_command_that_destroys_it(folder, monkeypatch):
    rows = {"vision-dev": 1, "organization/tidemill-bootstrap/old": 20, "organization/elsewhere/x": 3}
    listed = [{"name": name, "resourceCount": count} for name, count in rows.items()]
    monkeypatch.setattr(orphans, "answered", lambda *_: listed)
    assert orphans.deployed() == {"vision-dev": 1, "bootstrap/old": 20}
    done = CliRunner().invoke(orphans.orphans, ["--stack", "bootstrap/old"])
    assert done.exit_code == 1
    assert "bootstrap/Pulumi.old.yaml && pulumi destroy --stack old --cwd bootstrap" in done.output


def test_a_team_command_names_what_such_a_stack_lacks(folder):
    with pytest.raises(Exception, match="it has no queues; name a stack of stacks/"):
        project.read_config("shared/prod")


def test_the_estimate_has_the_keys_of_the_state_and_of_its_replica(folder):
    (folder / "bootstrap" / "Pulumi.account.yaml").write_text(f"{ACCOUNT}  tidemill-bootstrap:replica: us-east-1\n")
    done = CliRunner().invoke(estimate, ["--stack", "bootstrap/account", "--stack", "shared/prod", "--json"])
    assert done.exit_code == 0, done.output
    account, shared = json.loads(done.stdout)
    state, replica = account["idle_month"]
    assert ("of the state" in state["what"], "replica in us-east-1" in replica["what"]) == (True, True)
    each = prices.service("aws", "us-east-1", "kms_key_month")
    assert each is not None
    assert replica["usd_high"] == each.usd
    assert any("NAT gateway" in line["what"] for line in shared["idle_month"])
    assert account["burn_hour"] == shared["burn_hour"] == []


def test_the_estimate_of_an_account_without_replica_has_one_key(folder):
    done = CliRunner().invoke(estimate, ["--stack", "bootstrap/account", "--json"])
    assert len(json.loads(done.stdout)[0]["idle_month"]) == 1
