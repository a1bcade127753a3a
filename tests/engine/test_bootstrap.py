"""The stack of an account: service-linked roles, the state bucket and its key, and CI's identities.

Then CI deploys a team's stack, with its state in that bucket and its secrets under that key: the roles' own policies
decide every call. It does not prove which rights AWS's provider needs beyond localcloud's, nor GitHub's tokens.
"""

import pytest

from ops.project import ROOT
from tests.engine.inventory import client, inventory
from tests.harness import Project

ROLES = ["batch.amazonaws.com", "spot.amazonaws.com"]
CI = {"repository": "example/infra", "environments": ["dev", "prod"]}


@pytest.fixture(scope="module")
def before(cloud) -> dict[str, list[str]]:
    return inventory(cloud.env)


@pytest.fixture(scope="module")
def account(cloud, new_project, before) -> Project:
    project = new_project("account", source=ROOT / "bootstrap")
    with project.config() as config:
        config["aws:region"] = cloud.env["AWS_REGION"]
        config["tidemill-bootstrap:ci"] = CI
        config["tidemill-bootstrap:serviceLinkedRoles"] = ROLES
    preview = project.preview().ok()
    assert preview.violations == []
    assert sorted(preview.plan) == sorted(project.up().ok().plan)
    return project


@pytest.fixture(scope="module")
def login(cloud, account):
    """The environment of CI: a role's session, and the account's backend."""
    ci = account.outputs()["ci"]

    def of(role: str) -> dict[str, str]:
        arn = ci["preview"] if role == "preview" else ci["deploy"][role]
        key = cloud.control("credentials", role=arn)
        session = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        return {**session, "AWS_SESSION_TOKEN": key["Token"]}

    return of


def held(account: Project) -> set[tuple[str, str]]:
    return {(each["urn"], each["id"]) for each in account.resources()}


def denied(cloud) -> set[tuple[str, str]]:
    """(a role's name without its suffix, action) of everything that was refused so far."""
    return {(each["principal"].rpartition("-")[0], each["action"]) for each in cloud.control("denied")}


def test_the_account_has_the_roles_of_batch_and_spot(cloud, account):
    paths = {role["Path"] for role in client(cloud.env, "iam").list_roles()["Roles"]}
    assert {"/aws-service-role/batch.amazonaws.com/", "/aws-service-role/spot.amazonaws.com/"} <= paths
    assert account.up("--expect-no-changes").ok().plan == []


def test_the_key_of_an_earlier_version_becomes_todays_without_a_change(account):
    with account.config() as config:
        config["tidemill-bootstrap:service_linked_roles"] = config.pop("tidemill-bootstrap:serviceLinkedRoles")
    run = account.up("--expect-no-changes").ok()
    assert (run.plan, "serviceLinkedRoles" in run.text) == ([], False)


def test_a_replica_comes_once_and_stays(cloud, account, before):
    """It proves what is made and who may read it. localcloud copies nothing: that S3 does is not proven."""
    alone = {each["urn"] for each in account.resources()}
    with account.config() as config:
        config["tidemill-bootstrap:replica"] = "us-east-1"
    preview = account.preview().ok()
    assert preview.violations == []
    changed = [line for line in preview.plan if not line.startswith("create ")]
    assert len(changed) == 2, "CI's boundaries close the replica to every role of a stack"
    assert all(line.startswith("update ") and "tidemill-ci-boundary-" in line for line in changed)
    account.up().ok()
    assert alone < {each["urn"] for each in account.resources()}
    assert account.up("--expect-no-changes").ok().plan == []
    s3 = client(cloud.env, "s3")
    url = account.outputs()["replica_url"]
    resources = account.export()["deployment"]["resources"]
    (told,) = (each["outputs"] for each in resources if each["type"] == "tidemill:index:AwsBootstrap")
    assert told["replica_url"] == url
    name = url.removeprefix("s3://").removesuffix("?region=us-east-1")
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] is None, "S3's word for us-east-1"
    source = account.outputs()["backend_url"].removeprefix("s3://")
    (state, *_) = s3.get_bucket_replication(Bucket=source)["ReplicationConfiguration"]["Rules"]
    assert state["Destination"]["Bucket"] == f"arn:aws:s3:::{name}"


def test_a_rule_that_is_changed_by_hand_is_drift(cloud, account):
    s3 = client(cloud.env, "s3")
    bucket = account.outputs()["backend_url"].removeprefix("s3://")
    kept = s3.get_bucket_replication(Bucket=bucket)["ReplicationConfiguration"]
    first, *others = kept["Rules"]
    by_hand = [[{**first, "Status": "Disabled"}, *others], others, [{**first, "Filter": {"Prefix": "x"}}, *others]]
    for rules in by_hand:
        s3.put_bucket_replication(Bucket=bucket, ReplicationConfiguration={**kept, "Rules": rules})
        assert account.preview("--refresh").ok().plan[-1] == "update BucketReplicationConfig tidemill-replication-rules"
        account.up("--refresh").ok()
        assert s3.get_bucket_replication(Bucket=bucket)["ReplicationConfiguration"] == kept
    s3.delete_bucket_replication(Bucket=bucket)
    assert account.preview("--refresh").ok().plan[-1] == "create BucketReplicationConfig tidemill-replication-rules"
    account.up("--refresh").ok()


def test_what_removes_or_moves_a_replica_stops_before_anything_is_done(cloud, account):
    """Also without a preview, in which the engine stops first. Only CI's boundaries are written before that."""
    standing, before = inventory(cloud.env), held(account)
    assert "tidemill-bootstrap:purge lifts this" in account.destroy().refused().text
    for region in ("", "eu-west-1"):
        with account.config() as config:
            config["tidemill-bootstrap:replica"] = region
        account.up().refused()
        assert (inventory(cloud.env), held(account)) == (standing, before)
    with account.config() as config:
        config["tidemill-bootstrap:purge_replica"] = True
    told = account.preview().refused().text
    assert "tidemill-replica-us-east-1 (purge_replica lifts this)" in told, "moved at once, its copies are in the way"
    with account.config() as config:
        config["tidemill-bootstrap:replica"] = "us-east-1"
        del config["tidemill-bootstrap:purge_replica"]
    assert all("tidemill-ci-boundary-" in line for line in account.up().ok().plan)
    assert (inventory(cloud.env), held(account)) == (standing, before)


def test_a_replica_moves_with_its_copies_while_the_state_stays_protected(cloud, account):
    s3 = client(cloud.env, "s3")
    old = account.outputs()["replica_url"].removeprefix("s3://").partition("?")[0]
    s3.put_object(Bucket=old, Key=".pulumi/meta.yaml", Body=b"version: 1")
    protected = {each["urn"] for each in account.resources() if each.get("protect") and "-state" in each["urn"]}
    with account.config() as config:
        config["tidemill-bootstrap:purge_replica"] = True
    account.up().ok()
    assert protected == {each["urn"] for each in account.resources() if each.get("protect")}
    with account.config() as config:
        config["tidemill-bootstrap:replica"] = "eu-west-1"
        del config["tidemill-bootstrap:purge_replica"]
    assert account.preview().ok().violations == []
    account.up().ok()
    new = account.outputs()["replica_url"].removeprefix("s3://").partition("?")[0]
    assert s3.get_bucket_location(Bucket=new)["LocationConstraint"] == "eu-west-1"
    assert old not in {each["Name"] for each in s3.list_buckets()["Buckets"]}
    bucket = account.outputs()["backend_url"].removeprefix("s3://")
    rules = s3.get_bucket_replication(Bucket=bucket)["ReplicationConfiguration"]["Rules"]
    assert {rule["Destination"]["Bucket"] for rule in rules} == {f"arn:aws:s3:::{new}"}
    assert account.up("--expect-no-changes").ok().plan == []


def test_the_reader_compares_the_accounts_own_stack(cloud, account, login):
    """`drift` of bootstrap/ runs as it, and its rights cover everything that this stack makes."""
    administrator = dict(account.env)
    account.env |= login("preview")
    account.preview("--refresh", "--expect-no-changes").ok()
    account.env = administrator
    assert denied(cloud) == set()


def test_ci_plans_as_a_reader_and_deploys_the_plan_as_a_writer(cloud, account, login, tmp_path):
    standing = inventory(cloud.env)
    outputs = account.outputs()
    # localcloud has one name for all buckets.
    backend = f"{outputs['ci']['backend_url']}&use_path_style=true"
    writer, reader = login("dev"), login("preview")
    # An administrator deploys a backend's first stack: it records the backend's format for the engine.
    project = Project(tmp_path, cloud.env, "vision-dev", backend=backend, secrets=outputs["secrets_provider"])
    with project.config() as config:
        config["tidemill:permission_boundary"] = outputs["permission_boundaries"]["dev"]
        config["tidemill:allow"] = ["purge"]
        config["tidemill:store"] = {"kms_key": "create"}
        config["tidemill:file_systems"] = {"shared": {"backup": True}}
    plan = str(tmp_path / "plan.json")

    project.env |= reader
    planned = project.preview("--save-plan", plan).ok()
    project.env |= writer
    with project.config() as config:
        config["tidemill:logs"] = {"retention_days": 30}
    assert "violates plan" in project.up("--plan", plan).refused().text
    with project.config() as config:
        del config["tidemill:logs"]
    made = project.up("--plan", plan).ok()
    assert set(made.plan) <= set(planned.plan)

    # The reader sees manual changes, but cannot change anything itself.
    logs = client(cloud.env, "logs")
    group = logs.describe_log_groups()["logGroups"][0]["logGroupName"]
    logs.put_retention_policy(logGroupName=group, retentionInDays=90)
    project.env |= reader
    drift = project.preview("--refresh", "--expect-no-changes").refused()
    assert drift.plan[-1] == "update LogGroup vision-dev-logs-group"
    assert denied(cloud) == set()
    deployed = inventory(cloud.env)
    project.up().refused()
    assert denied(cloud) == {("tidemill-ci-preview", "s3:PutObject")}, "the state's lock is the first write"
    assert inventory(cloud.env) == deployed

    project.env |= writer
    project.destroy().ok()
    assert {who for who, _ in denied(cloud)} == {"tidemill-ci-preview"}
    assert inventory(cloud.env) == standing


def test_the_account_goes_when_it_is_purged(cloud, account, before):
    protected = held(account)
    assert "tidemill-bootstrap:purge lifts this" in account.destroy().refused().text
    assert held(account) == protected
    with account.config() as config:
        config["tidemill-bootstrap:purge"] = True
    account.up().ok()
    account.destroy().ok()
    assert account.resources() == []
    assert inventory(cloud.env) == before
