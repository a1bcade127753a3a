"""CI's identities in an account; localcloud's evaluator decides on the policies that the component really makes.

Recording mocks prove what is requested. tests/engine/test_bootstrap.py deploys a stack with it.
"""

import json

import pytest

from components.aws.ci.ci import AwsCi, AwsCiArgs
from components.ci import ISSUER
from components.config import ConfigError
from localcloud.aws.iam import DIRECT, Query, refusal
from tests.components.recording import ACCOUNT, Recorder, run
from tests.components.stacks import AWS_STACKS, run_stack
from tests.fields import about

STATE, KEY = "arn:aws:s3:::tidemill-state", f"arn:aws:kms:us-west-2:{ACCOUNT}:key/state"
REPLICA = "arn:aws:s3:::tidemill-replica-bucket-1a2b3c4"
GITHUB = f"arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER}"
GITLAB = GITHUB.replace(ISSUER, "gitlab.com")
BOUNDARY = "arn:mock:Policy:ci-boundary-prod"
FILES = f"arn:aws:elasticfilesystem:us-west-2:{ACCOUNT}:file-system/fs-0123456789abcdef0"
TEMPLATE = f"arn:aws:ec2:us-west-2:{ACCOUNT}:launch-template/lt-0123456789abcdef0"
LONGEST = 6144
"""https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
NAMES = ("dev", "prod", *(f"{kind}-{30 * 'e'}" for kind in "abcdef"))
"""As many environments as an account may have."""


def ci(**given: object) -> Recorder:
    values = {"repository": "example/infra", "environments": ["dev", "prod"], "provider_arn": GITHUB, **given}
    args = AwsCiArgs(state_arn=STATE, key_arn=KEY, **values)  # type: ignore[arg-type]
    return run(lambda: AwsCi("ci", args))


@pytest.fixture(scope="module")
def made() -> Recorder:
    return ci()


def documents(made: Recorder, role: str) -> list[dict]:
    policies = {policy.name: policy.document("policy") for policy in made.of("iam.Policy")}
    held = [
        each.inputs["policyArn"] for each in made.of("iam.RolePolicyAttachment") if each.name.startswith(f"{role}-")
    ]
    return [policies[arn.rpartition(":")[2]] for arn in held]


def allowed(made: Recorder, role: str, action: str, resource: str = "*", **context: str) -> bool:
    keys = {key.replace("__", ":").lower(): value for key, value in context.items()}
    return refusal(Query(action, resource, context=keys), documents(made, role)) is None


MAIN = "refs/heads/main"


def may_be(made: Recorder, role: str, subject: str, ref: str = MAIN, **given: str) -> bool:
    trust = made.one("iam.Role", role).document("assumeRolePolicy")
    audience, issuer = given.get("audience", "sts.amazonaws.com"), given.get("issuer", GITHUB)
    host = given.get("host", ISSUER)
    context = {f"{host}:sub": subject, f"{host}:aud": audience, f"{host}:ref": ref}
    query = Query("sts:AssumeRoleWithWebIdentity", role, {f"Federated:{issuer}": DIRECT}, context)
    return refusal(query, [], trust, resource_decides=True) is None


@pytest.mark.parametrize(
    ("subject", "roles"),
    [
        ("repo:example/infra:pull_request", {"ci-preview"}),
        ("repo:example/infra:ref:refs/heads/main", {"ci-preview"}),
        ("repo:example/infra:ref:refs/heads/other", set()),
        ("repo:example/infra:environment:prod", {"ci-deploy-prod"}),
        ("repo:example/infra:environment:production", set()),
        ("repo:example/infra-two:pull_request", set()),
        ("repo:somebody/infra:environment:prod", set()),
    ],
)
def test_a_workflow_is_whom_its_token_names(made, subject, roles):
    assert {role.name for role in made.of("iam.Role") if may_be(made, role.name, subject)} == roles
    assert not any(may_be(made, role, subject, audience="other") for role in roles)
    assert not any(may_be(made, role, subject, issuer=GITHUB.replace("github", "gitlab")) for role in roles)


@pytest.mark.parametrize(
    ("project", "kind", "ref", "roles"),
    [
        ("example/platform/infra", "branch", "main", {"ci-preview", "ci-deploy-dev", "ci-deploy-prod"}),
        ("example/platform/infra", "branch", "mine", {"ci-preview"}),
        ("example/platform/infra", "branch", "main-2", {"ci-preview"}),
        ("example/platform/infra", "tag", "main", set()),
        ("example/platform/infra-two", "branch", "main", set()),
        ("stranger/platform/infra", "branch", "main", set()),
    ],
)
def test_on_gitlab_a_branch_of_the_project_reads_and_the_protected_one_writes(project, kind, ref, roles):
    """Its subject has no environment: all writers trust the branch, and protecting it is GitLab's part."""
    made = ci(provider="gitlab", repository="example/platform/infra", provider_arn=None)
    assert made.one("iam.OpenIdConnectProvider", "ci-gitlab").inputs["url"] == "https://gitlab.com"
    subject = f"project_path:{project}:ref_type:{kind}:ref:{ref}"
    (provider,) = {
        each.document("assumeRolePolicy")["Statement"][0]["Principal"]["Federated"] for each in made.of("iam.Role")
    }
    given = {"issuer": provider, "host": "gitlab.com"}
    assert {role.name for role in made.of("iam.Role") if may_be(made, role.name, subject, **given)} == roles


@pytest.mark.parametrize(
    ("subject", "roles"),
    [
        (
            "project_id:42:ref_type:branch:ref:main:ref_protected:true",
            {"ci-preview", "ci-deploy-dev", "ci-deploy-prod"},
        ),
        ("project_id:42:ref_type:branch:ref:main:ref_protected:false", {"ci-preview"}),
        ("project_id:42:ref_type:branch:ref:mine:ref_protected:true", {"ci-preview"}),
        ("project_id:42:ref_type:branch:ref:main", {"ci-preview"}),
        ("project_id:43:ref_type:branch:ref:main:ref_protected:true", set()),
        # Of a project that got the path later, or of this one with other components.
        ("project_path:example/platform/infra:ref_type:branch:ref:main", set()),
        ("project_path:example/platform/infra:ref_type:branch:ref:main:ref_protected:true", set()),
    ],
)
def test_with_its_number_a_project_of_gitlab_is_bound_and_its_branch_must_be_protected(subject, roles):
    made = ci(provider="gitlab", repository="example/platform/infra@42", provider_arn=GITLAB)
    given = {"audience": "sts.amazonaws.com", "issuer": GITLAB, "host": "gitlab.com"}
    assert {role.name for role in made.of("iam.Role") if may_be(made, role.name, subject, **given)} == roles


@pytest.mark.parametrize(
    ("subject", "roles"),
    [
        ("repo:example@1/infra@2:pull_request", {"ci-preview"}),
        ("repo:example@1/infra@2:environment:prod", {"ci-deploy-prod"}),
        ("repo:example/infra:environment:prod", set()),
        ("repo:example@1/infra@3:environment:prod", set()),
        ("repo:example@9/infra@2:environment:prod", set()),
    ],
)
def test_with_its_numbers_a_repository_of_github_is_bound(subject, roles):
    """Its subject has them for repositories that are new, renamed or transferred since July 2026."""
    made = ci(repository="example@1/infra@2")
    assert {role.name for role in made.of("iam.Role") if may_be(made, role.name, subject)} == roles


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"repository": "example@1/infra"}, "owner@1/name@2 on GitHub"),
        ({"repository": "example/infra@2"}, "owner@1/name@2 on GitHub"),
        ({"provider": "gitlab", "repository": "example@1/infra@2"}, "the project's own number alone"),
        ({"repository": "a/b/c"}, "with provider: gitlab, group/project"),
        ({"host": "git.example.com"}, "only with provider: gitlab"),
        ({"provider": "gitea"}, "'github' or 'gitlab'"),
        ({"provider": "gitlab", "host": "https://git.example.com"}, "the name of a host"),
    ],
)
def test_a_host_of_code_that_does_not_fit_is_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        ci(**given)


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_only_the_branch_deploys(made, environment):
    """Whoever may push a branch may write a workflow that names an environment."""
    subject, role = f"repo:example/infra:environment:{environment}", f"ci-deploy-{environment}"
    assert may_be(made, role, subject)
    assert not may_be(made, role, subject, ref="refs/heads/mine")
    assert not may_be(made, role, subject, ref="refs/tags/main")
    assert may_be(made, "ci-preview", "repo:example/infra:pull_request", ref="refs/pull/1/merge")


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("s3:PutObject", f"{STATE}/.pulumi/locks/x"),
        ("s3:GetObject", "arn:aws:s3:::vision-dev-store-bucket-1a2b3c4/out/1/result.parquet"),
        ("s3:GetObject", "arn:aws:s3:::vision-dev-store-bucket-1a2b3c4/out/1/machines/a.jpg"),
        ("s3:GetObject", "arn:aws:s3:::payroll/machines/2026.csv"),
        ("kms:Encrypt", KEY),
        ("kms:Decrypt", f"arn:aws:kms:us-west-2:{ACCOUNT}:key/another"),  # but only through S3
        ("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:token-aaaaaa"),
        ("logs:GetLogEvents", f"arn:aws:logs:us-west-2:{ACCOUNT}:log-group:vision-dev-logs-group:log-stream:x"),
        ("batch:SubmitJob", f"arn:aws:batch:us-west-2:{ACCOUNT}:job-queue/vision-dev-cpu-queue"),
        ("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/ci-deploy-prod"),
    ],
)
def test_the_reader_reads_no_data_and_writes_nothing(made, action, resource):
    assert not allowed(made, "ci-preview", action, resource)


def test_the_readers_actions_are_named_and_read():
    actions = [a for d in documents(ci(), "ci-preview") for s in d["Statement"] for a in s["Action"]]
    assert not [action for action in actions if "*" in action]
    assert all(a.split(":")[1].startswith(("Describe", "Get", "List", "View", "Decrypt")) for a in actions)


def role_arn(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{name}"


@pytest.mark.parametrize(
    ("may", "action", "resource", "context"),
    [
        (True, "iam:CreateRole", role_arn("vision-prod-identity-job"), {"iam__PermissionsBoundary": BOUNDARY}),
        (False, "iam:CreateRole", role_arn("vision-prod-identity-job"), {}),
        (False, "iam:CreateRole", role_arn("vision-prod-x"), {"iam__PermissionsBoundary": "arn:aws:iam::aws:policy/X"}),
        (False, "iam:PutRolePolicy", role_arn("people-prod-administrator"), {}),
        (False, "iam:CreateRole", role_arn("vision-dev-identity-job"), {"iam__PermissionsBoundary": BOUNDARY}),
        (True, "iam:PassRole", role_arn("vision-prod-identity-job"), {"iam__PassedToService": "ec2.amazonaws.com"}),
        # People's own roles and policies of such a name.
        (False, "iam:UpdateAssumeRolePolicy", role_arn("payments-prod-admin"), {}),
        (False, "iam:PassRole", role_arn("payments-prod-admin"), {"iam__PassedToService": "ec2.amazonaws.com"}),
        (False, "iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/payments-prod-access", {}),
        # People's own roles may have it.
        (False, "iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/vision-prod-identity-submitter-1a2b3c4", {}),
        (
            True,
            "iam:PassRole",
            role_arn("vision-prod-logs-archive-s3-1"),
            {"iam__PassedToService": "firehose.amazonaws.com"},
        ),
        (False, "iam:PassRole", role_arn("vision-prod-x"), {"iam__PassedToService": "lambda.amazonaws.com"}),
        # Its own name matches the pattern of what it may change, so it is denied by name.
        (False, "iam:UpdateAssumeRolePolicy", role_arn("ci-deploy-prod-1a2b3c4"), {}),
        (False, "iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/ci-writes-prod-1a2b3c4", {}),
        (False, "iam:CreatePolicyVersion", f"arn:aws:iam::{ACCOUNT}:policy/ci-boundary-1a2b3c4", {}),
        (False, "iam:DeleteRolePermissionsBoundary", role_arn("vision-prod-identity-job"), {}),
        (False, "iam:CreateUser", f"arn:aws:iam::{ACCOUNT}:user/x-prod-y", {}),
        (True, "s3:DeleteBucket", "arn:aws:s3:::vision-prod-store-bucket-1a2b3c4", {}),
        (False, "s3:DeleteBucket", "arn:aws:s3:::vision-dev-store-bucket-1a2b3c4", {}),
        (False, "s3:DeleteBucket", STATE, {}),
        (False, "s3:GetObject", "arn:aws:s3:::vision-prod-store-bucket-1a2b3c4/out/1/result.parquet", {}),
        (False, "kms:ScheduleKeyDeletion", KEY, {"aws__ResourceTag/tidemill:environment": "prod"}),
        (False, "kms:ScheduleKeyDeletion", f"arn:aws:kms:us-west-2:{ACCOUNT}:key/another", {}),
        (True, "elasticfilesystem:CreateFileSystem", FILES, {"aws__RequestTag/tidemill:environment": "prod"}),
        (False, "elasticfilesystem:CreateFileSystem", FILES, {"aws__RequestTag/tidemill:environment": "dev"}),
        (True, "elasticfilesystem:DeleteFileSystem", FILES, {"aws__ResourceTag/tidemill:environment": "prod"}),
        (False, "elasticfilesystem:DeleteFileSystem", FILES, {"aws__ResourceTag/tidemill:environment": "dev"}),
        (False, "elasticfilesystem:DeleteFileSystem", FILES, {}),
        (False, "elasticfilesystem:ClientMount", FILES, {"aws__ResourceTag/tidemill:environment": "prod"}),
        (True, "ec2:CreateLaunchTemplate", TEMPLATE, {"aws__RequestTag/tidemill:environment": "prod"}),
        (False, "ec2:CreateLaunchTemplate", TEMPLATE, {}),
        (True, "ec2:CreateLaunchTemplateVersion", TEMPLATE, {"aws__ResourceTag/tidemill:environment": "prod"}),
        (False, "ec2:CreateLaunchTemplateVersion", TEMPLATE, {"aws__ResourceTag/tidemill:environment": "dev"}),
        (False, "ec2:ModifyLaunchTemplate", TEMPLATE, {}),
        (False, "ec2:CreateTags", TEMPLATE, {"aws__RequestTag/tidemill:environment": "prod"}),
        (
            True,
            "ec2:CreateTags",
            TEMPLATE,
            {"aws__RequestTag/tidemill:environment": "prod", "ec2__CreateAction": "CreateLaunchTemplate"},
        ),
        (False, "ec2:RunInstances", f"arn:aws:ec2:us-west-2:{ACCOUNT}:instance/*", {}),
        (False, "secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:prod-a", {}),
    ],
)
def test_a_writer_writes_what_its_environments_stacks_are_made_of(made, may, action, resource, context):
    assert allowed(made, "ci-deploy-prod", action, resource, **context) is may


def test_a_permission_boundary_leaves_the_roles_of_every_stack_what_they_need(made):
    """A missing right would be refused at run time, without an earlier warning."""
    allowing = [s for s in made.document_of("ci-boundary-dev") if s["Effect"] == "Allow"]
    within = {action for s in allowing for action in s["Action"]}
    granted = set()
    for stack in AWS_STACKS:
        access = {"submitters": [f"arn:aws:iam::{ACCOUNT}:root"], "advise": True}
        found = run_stack(stack, access=access, logs={"archive": "bucket"})
        for policy in [*found.of("iam.RolePolicy"), *found.of("iam.Policy")]:
            granted |= {action for s in policy.document("policy")["Statement"] for action in s["Action"]}
    some = {"s3:PutObject", "batch:SubmitJob", "firehose:PutRecord", "ecs:Poll", "ec2:GetSpotPlacementScores"}
    assert some <= granted
    assert granted <= within
    assert not {action for action in within if action.startswith(("iam:", "sts:")) or "*" in action}


@pytest.mark.parametrize("bucket", [STATE, REPLICA])
def test_no_role_of_a_stack_has_the_state_or_its_replica_whatever_buckets_stacks_may_use(bucket):
    """A `*` of `buckets` may cover both."""
    made = ci(replica_arn=REPLICA, buckets=["tidemill-*", "raw-*"])
    boundary = made.one("iam.Policy", "ci-boundary-dev").document("policy")
    whole = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    asked = [
        ("s3:ListBucket", bucket),
        *((f"s3:{verb}Object", f"{bucket}/.pulumi/meta.yaml") for verb in ("Get", "Put")),
    ]
    for action, resource in asked:
        assert refusal(Query(action, resource), [whole], boundary=boundary) is not None
    assert refusal(Query("s3:GetObject", "arn:aws:s3:::raw-images/a"), [whole], boundary=boundary) is None


def test_without_a_replica_a_boundary_is_what_it_was():
    (denied,) = [s for s in ci().document_of("ci-boundary-dev") if s["Action"] == ["s3:*"]]
    assert denied["Resource"] == [STATE, f"{STATE}/*"]


def test_every_policy_is_as_short_as_aws_takes_it():
    buckets = [f"{number:063}" for number in range(10)]
    made = ci(environments=list(NAMES), buckets=buckets, replica_arn=REPLICA)
    sizes = {
        policy.name: len(json.dumps(policy.document("policy"), separators=(",", ":")))
        for policy in made.of("iam.Policy")
    }
    assert sizes.keys() == {"ci-ground", "ci-reads"} | {
        f"ci-{what}-{name}" for what in ("boundary", "files", "sender", "writes", "wall") for name in NAMES
    }
    # Real names of accounts and regions are longer than the mocks'.
    assert max(sizes.values()) < LONGEST - 350, sizes


def test_an_account_has_one_identity_provider():
    assert ci().of("iam.OpenIdConnectProvider") == []
    own = ci(provider_arn=None).one("iam.OpenIdConnectProvider")
    assert (own.inputs["url"], own.inputs["clientIdLists"]) == (f"https://{ISSUER}", ["sts.amazonaws.com"])


@pytest.mark.parametrize(
    ("given", "what", "value", "allowed"),
    [
        ({"repository": "infra"}, "repository", '"infra"', "owner/name or owner@1/name@2 on GitHub"),
        ({"environments": []}, "environments", "[]", ""),
        ({"environments": ["prod", "prod"]}, "environments", "prod", "each value once"),
        ({"environments": ["Prod"]}, "environments[0]", '"Prod"', ""),
        ({"branch": "a branch"}, "branch", "a branch", ""),
        ({"buckets": ["s3://raw"]}, "buckets[0]", '"s3://raw"', "the name of a bucket"),
    ],
)
def test_a_wrong_setting_is_told(given, what, value, allowed):
    with pytest.raises(ConfigError, check=about(f"tidemill:ci.{what}", value, allowed)):
        ci(**given)
