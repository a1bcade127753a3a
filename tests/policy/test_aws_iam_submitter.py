"""The two submitter rules on made-up documents. They cannot prove what IAM itself would decide."""

import json

import pytest

from policy.rules import aws_iam_policy_submitter, aws_iam_role_submitter

SUBMIT = {"Effect": "Allow", "Action": ["batch:SubmitJob", "batch:Describe*"], "Resource": "*"}
REGISTER = {"Effect": "Allow", "Action": "batch:RegisterJobDefinition", "Resource": "*"}
PASS = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::123456789012:role/job"}


def document(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(action, **more):
    return {"Effect": "Allow", "Action": action, "Resource": "*"} | more


@pytest.mark.parametrize(
    "inputs",
    [
        {"policy": document(SUBMIT)},
        {"policy": json.loads(document(SUBMIT))},
        {"policy": json.dumps({"Statement": SUBMIT})},
        {"policy": document(REGISTER, PASS)},  # a deployer: it submits nothing
        {"policy": document(allow("batch:*"), {"Effect": "Deny", "Action": "batch:RegisterJob*", "Resource": "*"})},
        {"assumeRolePolicy": document(allow("*")), "inlinePolicies": [{"name": "submit", "policy": document(SUBMIT)}]},
        {},
    ],
)
def test_a_submitter_without_the_two_actions_passes(resource, inputs):
    assert list(aws_iam_policy_submitter.violations(resource(inputs))) == []


@pytest.mark.parametrize(
    ("inputs", "actions"),
    [
        ({"policy": document(SUBMIT, REGISTER)}, ["batch:RegisterJobDefinition"]),
        ({"policy": document(SUBMIT, PASS)}, ["iam:PassRole"]),
        ({"policy": document(SUBMIT, PASS, REGISTER)}, ["batch:RegisterJobDefinition", "iam:PassRole"]),
        ({"policy": document(allow("batch:*"))}, ["batch:RegisterJobDefinition"]),
        ({"policy": document(allow("*"))}, ["batch:RegisterJobDefinition", "iam:PassRole"]),
        ({"policy": document(allow("BATCH:submitjob"), allow("iam:Pass?ole"))}, ["iam:PassRole"]),
        ({"policy": document({"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"})}, ["batch:RegisterJob"]),
        ({"policy": json.loads(document(SUBMIT, PASS))}, ["iam:PassRole"]),
        ({"inlinePolicies": [{"policy": document(SUBMIT)}, {"policy": document(PASS)}]}, ["iam:PassRole"]),
        # A Deny with a condition, or of one resource only, takes nothing back.
        (
            {
                "policy": document(
                    allow("batch:*"),
                    {"Effect": "Deny", "Action": "batch:Register*", "Resource": "arn:aws:batch:*:*:job-definition/x"},
                    {"Effect": "Deny", "Action": "batch:*", "Resource": "*", "Condition": {"Bool": {"a": "b"}}},
                )
            },
            ["batch:RegisterJobDefinition"],
        ),
    ],
)
def test_a_submitter_with_one_of_them_fails(resource, inputs, actions):
    messages = list(aws_iam_policy_submitter.violations(resource(inputs)))
    assert len(messages) == len(actions)
    for message, action in zip(messages, actions, strict=True):
        assert action in message
        assert "Name the submitter's actions one by one" in message


@pytest.mark.parametrize("text", ["{", "[]", '"batch:SubmitJob"'])
def test_a_document_that_cannot_be_read_fails(resource, text):
    (message,) = aws_iam_policy_submitter.violations(resource({"policy": text}))
    assert "not" in message
    assert "json.dumps" in message


def test_a_document_that_only_up_will_know_passes(resource, unknown):
    assert list(aws_iam_policy_submitter.violations(resource({"policy": unknown}))) == []
    assert list(aws_iam_policy_submitter.violations(resource({"inlinePolicies": [{"policy": unknown}]}))) == []


def role_with(stack, *documents, managed=()):
    role = stack.add("aws:iam/role:Role", "submitter", {"name": "submitter-1", "assumeRolePolicy": document(SUBMIT)})
    for index, text in enumerate(documents):
        stack.add("aws:iam/rolePolicy:RolePolicy", f"inline-{index}", {"role": "submitter-1", "policy": text})
    for index, text in enumerate(managed):
        arn = f"arn:aws:iam::123456789012:policy/managed-{index}"
        stack.add("aws:iam/policy:Policy", f"managed-{index}", {"arn": arn, "policy": text})
        attached = {"role": "submitter-1", "policyArn": arn}
        stack.add("aws:iam/rolePolicyAttachment:RolePolicyAttachment", f"attached-{index}", attached)
    return role


def test_a_role_that_only_submits_passes(stack):
    role_with(stack, document(SUBMIT), managed=[document(allow("logs:GetLogEvents"))])
    other = stack.add("aws:iam/role:Role", "deployer", {"name": "deployer"})
    stack.add("aws:iam/rolePolicy:RolePolicy", "deploy", {"policy": document(PASS, REGISTER)}, role=other)
    assert list(aws_iam_role_submitter.violations(stack.args())) == []


@pytest.mark.parametrize(
    ("inline", "managed"), [([SUBMIT, PASS], []), ([SUBMIT], [PASS]), ([], [SUBMIT, PASS]), ([PASS], [SUBMIT])]
)
def test_a_role_that_gets_both_from_several_policies_fails(stack, inline, managed):
    role = role_with(stack, *map(document, inline), managed=map(document, managed))
    ((message, urn),) = aws_iam_role_submitter.violations(stack.args())
    assert "iam:PassRole" in message
    assert urn == role.urn


@pytest.mark.parametrize("name", ["AdministratorAccess", "AWSBatchFullAccess"])
def test_a_role_with_a_wide_policy_of_aws_fails(stack, name):
    role = role_with(stack, document(SUBMIT))
    arn = f"arn:aws:iam::aws:policy/{name}"
    stack.add("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "wide", {"policyArn": arn}, role=role)
    ((message, urn),) = aws_iam_role_submitter.violations(stack.args())
    assert name in message
    assert urn == role.urn


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        ("aws:iam/policyAttachment:PolicyAttachment", {"roles": ["submitter-1", "x"], "policyArn": "{}"}),
        (
            "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
            {"roleName": "submitter-1", "policyArns": ["{}"]},
        ),
        ("aws:iam/role:Role", {"name": "submitter-1", "managedPolicyArns": ["{}"]}),
    ],
)
@pytest.mark.parametrize(
    ("arn", "named"),
    [
        ("arn:aws:iam::aws:policy/AdministratorAccess", "AdministratorAccess is attached"),
        ("arn:aws:iam::aws:policy/IAMFullAccess", "iam:PassRole"),
        ("arn:aws:iam::1:policy/pass", "iam:PassRole"),
    ],
)
def test_every_way_to_attach_a_managed_policy_counts(stack, kind, props, arn, named):
    if kind != "aws:iam/role:Role":
        stack.add("aws:iam/role:Role", "submitter", {"name": "submitter-1"})
    stack.add(kind, "attached", json.loads(json.dumps(props).replace("{}", arn)))
    stack.add("aws:iam/policy:Policy", "pass", {"arn": "arn:aws:iam::1:policy/pass", "policy": document(PASS)})
    stack.add("aws:iam/rolePolicy:RolePolicy", "submit", {"role": "submitter-1", "policy": document(SUBMIT)})
    ((message, _),) = aws_iam_role_submitter.violations(stack.args())
    assert named in message


def test_a_role_of_a_first_preview_is_joined_by_its_dependencies(stack, unknown):
    role = stack.add("aws:iam/role:Role", "submitter", {"name": unknown})
    submit = stack.add("aws:iam/policy:Policy", "submit", {"arn": unknown, "policy": document(SUBMIT)})
    owners = {"role": role, "policyArn": submit}
    attached = {"role": unknown, "policyArn": unknown}
    stack.add("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "submit", attached, **owners)
    stack.add("aws:iam/rolePolicy:RolePolicy", "later", {"role": unknown, "policy": unknown}, role=role)
    assert list(aws_iam_role_submitter.violations(stack.args())) == []
    stack.add("aws:iam/rolePolicy:RolePolicy", "pass", {"role": unknown, "policy": document(PASS)}, role=role)
    ((message, _),) = aws_iam_role_submitter.violations(stack.args())
    assert "iam:PassRole" in message
