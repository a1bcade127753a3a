"""CI's identities in a project. Recording mocks prove what is requested; tests/engine/test_gcp_bootstrap.py uses it."""

import pytest

from components.config import ConfigError
from components.gcp.ci import GcpCi, GcpCiArgs
from components.gcp.ci_permissions import READING, WRITING
from localcloud.gcp.condition import compiled
from tests.components.recording import Recorder, run
from tests.fields import about

POOL = "principal://iam.googleapis.com/t-pool-1a2b3c4/subject/"


def ci(**given: object) -> Recorder:
    values = {"repository": "example/infra", "environments": ["dev", "prod"], **given}
    args = GcpCiArgs(state_bucket="state", kms_key="k", **values)  # type: ignore[arg-type]
    return run(lambda: GcpCi("t", args))


def test_only_one_repositorys_workflows_get_in():
    provider = ci().one("iam.WorkloadIdentityPoolProvider").inputs
    assert provider["attributeMapping"]["google.subject"] == "assertion.sub"
    assert provider["oidc"] == {"issuerUri": "https://token.actions.githubusercontent.com"}


@pytest.mark.parametrize(
    ("repository", "subject", "ref", "may"),
    [
        ("example/infra", "repo:example/infra:environment:dev", "refs/heads/main", True),
        ("example/infra", "repo:example/infra:environment:dev", "refs/heads/mine", False),
        ("example/infra", "repo:example/infra:environment:dev", "refs/tags/main", False),
        ("example/infra", "repo:example/infra:pull_request", "refs/pull/1/merge", True),
        ("stranger/infra", "repo:stranger/infra:pull_request", "refs/heads/main", False),
    ],
)
def test_only_the_branch_deploys(repository: str, subject: str, ref: str, may: bool):
    condition = ci().one("iam.WorkloadIdentityPoolProvider").inputs["attributeCondition"]
    told = {"assertion.repository": repository, "assertion.sub": subject, "assertion.ref": ref}
    assert bool(compiled(condition)(told)) is may


@pytest.mark.parametrize(
    ("told", "reads", "writes"),
    [
        ({}, True, True),
        ({"ref": "mine", "ref_protected": "false"}, True, False),
        ({"ref_protected": "false"}, True, False),
        ({"ref_type": "tag"}, True, False),
        ({"environment_protected": "false"}, True, False),
        ({"pipeline_source": "merge_request_event"}, True, False),
        ({"pipeline_source": "parent_pipeline"}, True, False),
        ({"project_path": "stranger/infra"}, False, False),
        ({"project_path": "example/platform/infra-two"}, False, False),
    ],
)
def test_on_gitlab_only_a_protected_environment_on_the_protected_branch_deploys(told, reads, writes):
    """GitLab and Google decide what a token holds and how an expression is read; this is the expression alone."""
    made = ci(provider="gitlab", repository="example/platform/infra", host="gitlab.example.com")
    claims = {"project_path": "example/platform/infra", "ref": "main", "ref_type": "branch", "ref_protected": "true"}
    claims |= {"environment_protected": "true", "pipeline_source": "push", **told}
    context = {f"assertion.{key}": value for key, value in claims.items()}
    for name, may in (("t-gitlab", reads), ("t-gitlab-deploy", writes)):
        provider = made.one("iam.WorkloadIdentityPoolProvider", name).inputs
        assert provider["oidc"] == {"issuerUri": "https://gitlab.example.com", "allowedAudiences": ["tidemill-ci"]}
        assert bool(compiled(provider["attributeCondition"])(context)) is may
    members = {each.inputs["member"].removeprefix(POOL) for each in made.of("serviceaccount.IAMMember")}
    project = "project:example/platform/infra"
    assert members == {project, f"{project}:environment:dev", f"{project}:environment:prod"}
    (reader,) = (each for each in made.of("serviceaccount.IAMMember") if each.inputs["member"] == POOL + project)
    assert reader.inputs["serviceAccountId"] == "t-preview-1a2b3c4"
    readers = made.one("iam.WorkloadIdentityPoolProvider", "t-gitlab").inputs["attributeMapping"]
    assert "environment" not in readers["google.subject"], "a reader's provider makes no writer's subject"


@pytest.mark.parametrize(
    ("given", "told", "may"),
    [
        ({"provider": "gitlab", "repository": "example/infra@42"}, {"project_id": "42"}, True),
        ({"provider": "gitlab", "repository": "example/infra@42"}, {"project_id": "43"}, False),
        ({"repository": "example@1/infra@2"}, {"repository_owner_id": "1", "repository_id": "2"}, True),
        ({"repository": "example@1/infra@2"}, {"repository_owner_id": "1", "repository_id": "3"}, False),
        ({"repository": "example@1/infra@2"}, {"repository_owner_id": "9", "repository_id": "2"}, False),
    ],
)
def test_with_its_numbers_a_repository_is_bound(given, told, may):
    """A project or repository that gets the path later has others."""
    made = ci(**given)
    claims = {"project_path": "example/infra", "repository": "example/infra", "ref": "main", "ref_type": "branch"}
    claims |= {
        "ref_protected": "true",
        "environment_protected": "true",
        "pipeline_source": "push",
        "sub": "repo:example@1/infra@2:pull_request",
    }
    context = {f"assertion.{key}": value for key, value in (claims | told).items()}
    for provider in made.of("iam.WorkloadIdentityPoolProvider"):
        assert bool(compiled(provider.inputs["attributeCondition"])(context)) is may
    members = {each.inputs["member"].removeprefix(POOL) for each in made.of("serviceaccount.IAMMember")}
    prod = "project:example/infra" if "provider" in given else "repo:example@1/infra@2"
    assert f"{prod}:environment:prod" in members


def test_a_workflow_becomes_the_account_that_its_subject_names():
    made = ci()
    found: dict[str, set[str]] = {}
    for binding in made.of("serviceaccount.IAMMember"):
        assert binding.inputs["role"] == "roles/iam.workloadIdentityUser"
        found.setdefault(binding.inputs["serviceAccountId"], set()).add(binding.inputs["member"])
    assert found == {
        "t-preview-1a2b3c4": {
            f"{POOL}repo:example/infra:pull_request",
            f"{POOL}repo:example/infra:ref:refs/heads/main",
        },
        "t-deploy-dev-1a2b3c4": {f"{POOL}repo:example/infra:environment:dev"},
        "t-deploy-prod-1a2b3c4": {f"{POOL}repo:example/infra:environment:prod"},
    }


def test_a_reader_reads_and_a_writer_does_no_more_than_stacks_need():
    made = ci()
    held: dict[str, set[str]] = {}
    for binding in made.of("projects.IAMMember"):
        held.setdefault(binding.inputs["member"].partition("@")[0], set()).add(
            binding.inputs["role"].rpartition("/")[2]
        )
    assert held == {
        "serviceAccount:t-preview": {"t_reader", "storage.objectViewer"},
        "serviceAccount:t-dev-deploy": {"t_reader", "t_writer", "storage.objectViewer"},
        "serviceAccount:t-prod-deploy": {"t_reader", "t_writer", "storage.objectViewer"},
    }
    assert {permission.rpartition(".")[2] for permission in READING} == {
        "capacity",
        "get",
        "getFromFamily",
        "getIamPolicy",
        "getShared",
        "list",
    }
    data = ("storage.objects.get", "secretmanager.versions", "logging.logEntries", "iam.serviceAccountKeys")
    assert not [p for p in [*READING, *WRITING] if p.startswith(data)]
    assert not set(READING) & set(WRITING)
    assert made.one("projects.IAMCustomRole", "t-writer").inputs["permissions"] == WRITING


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("pipeline.json", True),
        ("reconciler/0123456789abcdef.zip", True),
        ("jobs/a/job.json", False),
        ("out/1/pipeline.json.csv", False),
        ("reconciler/notes.txt", False),
    ],
)
def test_of_what_buckets_hold_it_reads_what_stacks_write(name, may):
    (condition,) = {
        each.inputs["condition"]["expression"] for each in ci().of("projects.IAMMember") if "condition" in each.inputs
    }
    resource = f"projects/_/buckets/vision-store/objects/{name}"
    assert bool(compiled(condition)({"resource.name": resource})) is may


def test_the_state_is_read_by_the_reader_and_written_by_the_writers():
    made = ci()
    on_state = {each.name: each.inputs["role"].rpartition(".")[2] for each in made.of("storage.BucketIAMMember")}
    on_key = {each.name: each.inputs["role"].rpartition(".")[2] for each in made.of("kms.CryptoKeyIAMMember")}
    assert on_state == {
        "t-preview-state": "objectViewer",
        "t-deploy-dev-state": "objectUser",
        "t-deploy-prod-state": "objectUser",
    }
    assert on_key == {
        "t-preview-key": "cryptoKeyDecrypter",
        "t-deploy-dev-key": "cryptoKeyEncrypterDecrypter",
        "t-deploy-prod-key": "cryptoKeyEncrypterDecrypter",
    }


def test_accounts_of_long_environments_keep_names_of_their_own():
    long = ["a-very-long-environment-of-one", "a-very-long-environment-of-two"]
    accounts = [each.inputs["accountId"] for each in ci(environments=long).of("serviceaccount.Account")]
    assert len(set(accounts)) == 3
    assert all(6 <= len(account) <= 30 for account in accounts)


def test_a_wrong_setting_is_told():
    with pytest.raises(ConfigError, check=about("tidemill:ci.repository", '"example"')):
        ci(repository="example")
