"""The rule on made-up stacks. It cannot prove that EFS refuses what such a file system should refuse."""

import json

import pytest

from policy.rules.aws_efs_file_system_closed import FILE_SYSTEM, POLICY, violations
from policy.rules.common.values import UNKNOWN

JOBS = {"Effect": "Allow", "Principal": {"AWS": "arn:job"}, "Action": "elasticfilesystem:ClientMount", "Resource": "*"}
TLS = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "*",
    "Resource": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}


def policy(*statements):
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def judged(stack, document, **changes):
    system = stack.add(FILE_SYSTEM, "files", {"id": "fs-1", "encrypted": True} | changes)
    if document is not None:
        stack.add(POLICY, "files", {"fileSystemId": "fs-1", "policy": document})
    found = list(violations(stack.args()))
    assert {urn for _, urn in found} <= {system.urn}
    return [message for message, _ in found]


ORGANIZATION = {"Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}}
CLIENT = [f"elasticfilesystem:{action}" for action in ("ClientMount", "ClientWrite", "ClientRootAccess")]


@pytest.mark.parametrize(
    "document",
    [
        policy(JOBS, TLS),
        policy(JOBS, TLS | {"Principal": "*"}),
        policy(
            JOBS, TLS | {"Action": "elasticfilesystem:*", "Condition": {"Bool": {"aws:SecureTransport": ["false"]}}}
        ),
        policy(JOBS, TLS | {"Action": CLIENT}),
        policy(JOBS | {"Principal": {"AWS": "*"}} | ORGANIZATION, TLS),
        {"Statement": [JOBS, TLS]},
        UNKNOWN,
    ],
)
def test_a_closed_file_system_passes(stack, document):
    assert judged(stack, document) == []


@pytest.mark.parametrize(
    ("document", "changes", "says"),
    [
        (policy(JOBS, TLS), {"encrypted": False}, "not encrypted"),
        (policy(JOBS, TLS), {"encrypted": None}, "not encrypted"),
        (None, {}, "every client that reaches it"),
        (policy(JOBS), {}, "without TLS"),
        (policy(JOBS, TLS | {"Principal": {"AWS": "arn:job"}}), {}, "without TLS"),
        (policy(JOBS, TLS | {"Action": "elasticfilesystem:ClientWrite"}), {}, "without TLS"),
        (policy(JOBS | {"Principal": {"AWS": "*"}}, TLS), {}, "admits everybody"),
        (policy({"Effect": "Allow", "NotPrincipal": {"AWS": "arn:x"}, "Action": "*"}, TLS), {}, "admits everybody"),
        (
            policy(
                JOBS
                | {"Principal": "*"}
                | {"Condition": {"Bool": {"elasticfilesystem:AccessedViaMountTarget": "true"}}},
                TLS,
            ),
            {},
            "admits everybody",
        ),
        ("[1", {}, "Name the role"),
    ],
)
def test_an_open_one_is_told(stack, document, changes, says):
    (message,) = judged(stack, document, **changes)
    assert says in message
