"""The policy evaluator on AWS's documented examples. It cannot prove what AWS does beyond its documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from localcloud.aws.iam import ACCOUNT, DIRECT, ROLE, PolicyError, Query, parse, refusal

GUIDE = "https://docs.aws.amazon.com/IAM/latest/UserGuide/"
BASICS = GUIDE + "reference_policies_evaluation-logic_policy-eval-basics.html"
LOGIC = GUIDE + "reference_policies_evaluation-logic_policy-eval-denyallow.html"
BOUNDARIES = GUIDE + "access_policies_boundaries.html"
VARIABLES = GUIDE + "reference_policies_variables.html"
OPERATORS = GUIDE + "reference_policies_elements_condition_operators.html"
MULTIPLE = GUIDE + "reference_policies_multi-value-conditions.html"
MULTIVALUED = GUIDE + "reference_policies_condition_examples-multi-valued-context-keys.html"
NOT_ACTION = GUIDE + "reference_policies_elements_notaction.html"
NOT_RESOURCE = GUIDE + "reference_policies_elements_notresource.html"
RESOURCE = GUIDE + "reference_policies_elements_resource.html"
PRINCIPAL = GUIDE + "reference_policies_elements_principal.html"
NOT_PRINCIPAL = GUIDE + "reference_policies_elements_notprincipal.html"
CROSS_ACCOUNT = GUIDE + "reference_policies_evaluation-logic-cross-account.html"
SESSION_POLICIES = GUIDE + "access_policies.html#policies_session"
ACTION = GUIDE + "reference_policies_elements_action.html"
SET_OPERATORS = GUIDE + "reference_policies_condition-single-vs-multi-valued-context-keys.html"
BATCH_QUEUE = "https://docs.aws.amazon.com/batch/latest/userguide/iam-example-restrict-job-queue.html"
BATCH_TAGS = "https://docs.aws.amazon.com/batch/latest/userguide/iam-example-restrict-job-submission-by-tags.html"

USER = "AWS:arn:aws:iam::111122223333:user/carlossalazar"
ROOT = "AWS:arn:aws:iam::111122223333:root"
SESSION = "AWS:arn:aws:sts::111122223333:assumed-role/JohnDoe/mary"
ROLE_NAME = "AWS:arn:aws:iam::111122223333:role/JohnDoe"
BY_USER = {USER: DIRECT, ROOT: ACCOUNT}
BY_SESSION = {SESSION: DIRECT, ROLE_NAME: ROLE, ROOT: ACCOUNT}

NO_IDENTITY = "because no identity-based policy allows"
NO_BOUNDARY = "because no permissions boundary allows"
NO_SESSION = "because no session policy allows"
NO_RESOURCE = "because no resource-based policy allows"
IDENTITY_DENIES = "with an explicit deny in an identity-based policy"
RESOURCE_DENIES = "with an explicit deny in a resource-based policy"


def policy(*statements: dict[str, Any], version: str = "2012-10-17") -> dict[str, Any]:
    return parse(json.dumps({"Version": version, "Statement": list(statements)}))


def allow(action: Any, resource: Any = "*", **elements: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **elements}


def deny(action: Any, resource: Any = "*", **elements: Any) -> dict[str, Any]:
    return {"Effect": "Deny", "Action": action, "Resource": resource, **elements}


def when(operator: str, key: str, values: Any) -> dict[str, Any]:
    return {"Condition": {operator: {key: values}}}


CARLOS = policy(
    allow(["s3:GetBucketLocation", "s3:ListAllMyBuckets"], "arn:aws:s3:::*"),
    allow(
        "s3:*", ["arn:aws:s3:::amzn-s3-demo-bucket-carlossalazar", "arn:aws:s3:::amzn-s3-demo-bucket-carlossalazar/*"]
    ),
    deny("s3:*", "arn:aws:s3:::*log*"),
)
BOUNDARY = policy(allow(["s3:*", "cloudwatch:*", "ec2:*"]))
HOME = policy(
    allow(
        "s3:ListBucket", "arn:aws:s3:::amzn-s3-demo-bucket", **when("StringLike", "s3:prefix", ["${aws:username}/*"])
    ),
    allow(["s3:GetObject", "s3:PutObject"], "arn:aws:s3:::amzn-s3-demo-bucket/${aws:username}/*"),
)
TEAM = policy(allow("s3:GetObject", "arn:aws:s3:::bucket-${aws:PrincipalTag/team, 'company-wide'}/*"))
NO_MFA = policy(
    {
        "Effect": "Deny",
        "NotAction": "iam:*",
        "Resource": "*",
        **when("BoolIfExists", "aws:MultiFactorAuthPresent", False),
    },
    allow("*"),
)
HR = policy(
    allow("s3:*"),
    {
        "Effect": "Deny",
        "Action": "s3:*",
        "NotResource": ["arn:aws:s3:::HRBucket/Payroll", "arn:aws:s3:::HRBucket/Payroll/*"],
    },
)
QUEUE1 = policy(
    allow(
        "batch:SubmitJob",
        [
            "arn:aws:batch:us-east-2:111122223333:job-definition/*",
            "arn:aws:batch:us-east-2:111122223333:job-queue/queue1",
        ],
    )
)
QUEUE_ONLY = policy(allow("batch:SubmitJob", "arn:aws:batch:us-east-2:111122223333:job-queue/queue1"))
CALC = policy(
    allow(
        "batch:SubmitJob",
        "arn:aws:batch:*:*:job-definition/*:*",
        **when("StringEquals", "aws:ResourceTag/Project", "calc"),
    )
)
TLS_ONLY = policy(
    {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
        **when("Bool", "aws:SecureTransport", "false"),
    }
)
EVERYTHING = policy(allow("*"))
DEFINITION = "arn:aws:batch:us-east-2:111122223333:job-definition/a:3"
QUEUE = "arn:aws:batch:us-east-2:111122223333:job-queue/queue1"


class Case(NamedTuple):
    source: str
    identity: list[dict[str, Any]]
    action: str
    resource: str
    expected: str | None
    context: Mapping[str, Any] = MappingProxyType({})
    rest: Mapping[str, Any] = MappingProxyType({})
    caller: Mapping[str, int] = MappingProxyType(BY_USER)


def granted_to(principal: str, action: str = "s3:GetObject") -> dict[str, Any]:
    return policy(
        {"Effect": "Allow", "Principal": {"AWS": principal.removeprefix("AWS:")}, "Action": action, "Resource": "*"}
    )


def but(*spared: str) -> dict[str, Any]:
    names = {"AWS": [name.removeprefix("AWS:") for name in spared]}
    return policy({"Effect": "Deny", "NotPrincipal": names, "Action": "s3:*", "Resource": "*"})


def denied_to(principal: str) -> dict[str, Any]:
    return policy(deny("s3:*", Principal={"AWS": principal.removeprefix("AWS:")}))


CASES = {
    "own bucket": Case(BASICS, [CARLOS], "s3:PutObject", "arn:aws:s3:::amzn-s3-demo-bucket-carlossalazar/f", None),
    "bucket of others": Case(BASICS, [CARLOS], "s3:PutObject", "arn:aws:s3:::other/f", NO_IDENTITY),
    "explicit deny beats the bucket's allow": Case(
        BASICS,
        [CARLOS],
        "s3:PutObject",
        "arn:aws:s3:::amzn-s3-demo-bucket-carlossalazar-logs/f",
        IDENTITY_DENIES,
        rest={"resource": granted_to(USER, "s3:*")},
    ),
    "the bucket's allow is enough": Case(
        BASICS, [], "s3:GetObject", "arn:aws:s3:::b/k", None, rest={"resource": granted_to(USER)}
    ),
    "the bucket's allow of the account is not": Case(
        PRINCIPAL, [], "s3:GetObject", "arn:aws:s3:::b/k", NO_IDENTITY, rest={"resource": granted_to(ROOT)}
    ),
    "no policy": Case(LOGIC, [], "s3:GetObject", "arn:aws:s3:::b/k", NO_IDENTITY),
    "action in any case": Case(LOGIC, [policy(allow("S3:getobject"))], "s3:GetObject", "arn:aws:s3:::b/k", None),
    "boundary limits": Case(
        BOUNDARIES, [policy(allow("iam:CreateUser"))], "iam:CreateUser", "*", NO_BOUNDARY, rest={"boundary": BOUNDARY}
    ),
    "boundary grants nothing": Case(BOUNDARIES, [], "s3:GetObject", "*", NO_IDENTITY, rest={"boundary": BOUNDARY}),
    "boundary and identity": Case(BOUNDARIES, [EVERYTHING], "ec2:RunInstances", "*", None, rest={"boundary": BOUNDARY}),
    "session policy limits": Case(
        LOGIC, [EVERYTHING], "s3:PutObject", "*", NO_SESSION, rest={"session": policy(allow("s3:GetObject"))}
    ),
    "bucket names the user: boundary does not limit": Case(
        LOGIC, [], "s3:GetObject", "*", None, rest={"boundary": policy(allow("ec2:*")), "resource": granted_to(USER)}
    ),
    "bucket names the role: boundary limits": Case(
        LOGIC,
        [],
        "s3:GetObject",
        "*",
        NO_BOUNDARY,
        rest={"boundary": policy(allow("ec2:*")), "resource": granted_to(ROLE_NAME)},
        caller=BY_SESSION,
    ),
    "bucket names the role: identity is not asked": Case(
        LOGIC, [], "s3:GetObject", "*", None, rest={"resource": granted_to(ROLE_NAME)}, caller=BY_SESSION
    ),
    "bucket names the session: nothing else is asked": Case(
        LOGIC,
        [],
        "s3:GetObject",
        "*",
        None,
        rest={"session": policy(allow("ec2:*")), "resource": granted_to(SESSION)},
        caller=BY_SESSION,
    ),
    "trust decides": Case(
        LOGIC, [EVERYTHING], "sts:AssumeRole", "*", NO_RESOURCE, rest={"resource": TLS_ONLY, "resource_decides": True}
    ),
    "trust of the account and own permission": Case(
        PRINCIPAL,
        [EVERYTHING],
        "sts:AssumeRole",
        "*",
        None,
        rest={"resource": granted_to(ROOT, "sts:AssumeRole"), "resource_decides": True},
    ),
    "trust of the account without own permission": Case(
        PRINCIPAL,
        [],
        "sts:AssumeRole",
        "*",
        NO_IDENTITY,
        rest={"resource": granted_to(ROOT, "sts:AssumeRole"), "resource_decides": True},
    ),
    "home folder": Case(
        VARIABLES, [HOME], "s3:GetObject", "arn:aws:s3:::amzn-s3-demo-bucket/bob/x", None, {"aws:username": "bob"}
    ),
    "home folder of another": Case(
        VARIABLES,
        [HOME],
        "s3:GetObject",
        "arn:aws:s3:::amzn-s3-demo-bucket/bob/x",
        NO_IDENTITY,
        {"aws:username": "alice"},
    ),
    "a variable's value is no pattern": Case(
        VARIABLES, [HOME], "s3:GetObject", "arn:aws:s3:::amzn-s3-demo-bucket/bob/x", NO_IDENTITY, {"aws:username": "*"}
    ),
    "a variable without value matches nothing": Case(
        VARIABLES, [HOME], "s3:GetObject", "arn:aws:s3:::amzn-s3-demo-bucket//x", NO_IDENTITY
    ),
    "variable in a condition": Case(
        VARIABLES,
        [HOME],
        "s3:ListBucket",
        "arn:aws:s3:::amzn-s3-demo-bucket",
        None,
        {"aws:username": "bob", "s3:prefix": "bob/x"},
    ),
    "list without prefix": Case(
        VARIABLES, [HOME], "s3:ListBucket", "arn:aws:s3:::amzn-s3-demo-bucket", NO_IDENTITY, {"aws:username": "bob"}
    ),
    "default value of a variable": Case(VARIABLES, [TEAM], "s3:GetObject", "arn:aws:s3:::bucket-company-wide/x", None),
    "tag in place of the default": Case(
        VARIABLES, [TEAM], "s3:GetObject", "arn:aws:s3:::bucket-yellow/x", None, {"aws:principaltag/team": "yellow"}
    ),
    "variables need version 2012-10-17": Case(
        VARIABLES,
        [policy(allow("s3:*", "arn:aws:s3:::${aws:username}"), version="2008-10-17")],
        "s3:GetObject",
        "arn:aws:s3:::bob",
        NO_IDENTITY,
        {"aws:username": "bob"},
    ),
    "literal star": Case(
        VARIABLES, [policy(allow("s3:*", "arn:aws:s3:::b/${*}"))], "s3:GetObject", "arn:aws:s3:::b/*", None
    ),
    "literal star is no wildcard": Case(
        VARIABLES, [policy(allow("s3:*", "arn:aws:s3:::b/${*}"))], "s3:GetObject", "arn:aws:s3:::b/x", NO_IDENTITY
    ),
    "NotAction without MFA": Case(
        NOT_ACTION, [NO_MFA], "s3:GetObject", "*", IDENTITY_DENIES, {"aws:multifactorauthpresent": "false"}
    ),
    "NotAction without the key": Case(NOT_ACTION, [NO_MFA], "s3:GetObject", "*", IDENTITY_DENIES),
    "NotAction with MFA": Case(NOT_ACTION, [NO_MFA], "s3:GetObject", "*", None, {"aws:multifactorauthpresent": "true"}),
    "NotAction spares its action": Case(NOT_ACTION, [NO_MFA], "iam:ListUsers", "*", None),
    "NotResource": Case(NOT_RESOURCE, [HR], "s3:GetObject", "arn:aws:s3:::HRBucket/Other", IDENTITY_DENIES),
    "NotResource spares its resource": Case(
        NOT_RESOURCE, [HR], "s3:GetObject", "arn:aws:s3:::HRBucket/Payroll/1", None
    ),
    "a star inside a segment stays in it": Case(
        RESOURCE, [policy(allow("*", "arn:aws:iam::*3:role/x"))], "iam:GetRole", "arn:aws:iam::1:3:role/x", NO_IDENTITY
    ),
    "a star at a segment's end goes on": Case(
        RESOURCE,
        [policy(allow("*", "arn:aws:logs:*:log-stream:*"))],
        "logs:X",
        "arn:aws:logs:r:a:log-group:g:log-stream:s",
        None,
    ),
    "question mark": Case(
        RESOURCE, [policy(allow("*", "arn:aws:s3:::b?"))], "s3:ListBucket", "arn:aws:s3:::b12", NO_IDENTITY
    ),
    "NotPrincipal spares its principal": Case(
        NOT_PRINCIPAL,
        [EVERYTHING],
        "s3:GetObject",
        "*",
        None,
        rest={
            "resource": policy(
                {"Effect": "Deny", "NotPrincipal": {"AWS": [USER[4:], ROOT[4:]]}, "Action": "s3:*", "Resource": "*"}
            )
        },
    ),
    **{
        f"NotPrincipal of {name}": Case(
            NOT_PRINCIPAL,
            [EVERYTHING],
            "s3:GetObject",
            "*",
            expected,
            rest={"resource": but(*spared), **more},
            caller=who,
        )
        for name, spared, who, more, expected in (
            ("the user without the account", [USER], BY_USER, {}, RESOURCE_DENIES),
            ("the account without the user", [ROOT], BY_USER, {}, RESOURCE_DENIES),
            ("the account and another user", [ROOT, USER + "2"], BY_USER, {}, RESOURCE_DENIES),
            ("the role and the account", [ROLE_NAME, ROOT], BY_SESSION, {}, None),
            ("the role without the account", [ROLE_NAME], BY_SESSION, {}, RESOURCE_DENIES),
            ("the session and the account", [SESSION, ROOT], BY_SESSION, {}, RESOURCE_DENIES),
            ("a user with a boundary", [USER, ROOT], BY_USER, {"boundary": policy(allow("*"))}, RESOURCE_DENIES),
        )
    },
    **{
        f"deny of {name}": Case(
            PRINCIPAL, [EVERYTHING], "s3:GetObject", "*", expected, rest={"resource": denied_to(whom)}, caller=who
        )
        for name, whom, who, expected in (
            ("the role denies its sessions", ROLE_NAME, BY_SESSION, RESOURCE_DENIES),
            ("the account denies its users", ROOT, BY_USER, RESOURCE_DENIES),
            ("another role", ROLE_NAME + "2", BY_SESSION, None),
            ("everybody", "AWS:*", BY_USER, RESOURCE_DENIES),
        )
    },
    "a grant to a role of another account": Case(
        CROSS_ACCOUNT,
        [],
        "s3:GetObject",
        "*",
        NO_IDENTITY,
        rest={"resource": granted_to(ROLE_NAME.replace("1111", "9999"))},
        caller=BY_SESSION,
    ),
    "trust of another account": Case(
        CROSS_ACCOUNT,
        [EVERYTHING],
        "sts:AssumeRole",
        "*",
        NO_RESOURCE,
        rest={"resource": granted_to(ROOT.replace("1111", "9999"), "sts:AssumeRole"), "resource_decides": True},
    ),
    "session policy and a grant to the role": Case(
        SESSION_POLICIES,
        [],
        "s3:GetObject",
        "*",
        NO_SESSION,
        rest={"session": policy(allow("s3:PutObject")), "resource": granted_to(ROLE_NAME)},
        caller=BY_SESSION,
    ),
    "session policy grants nothing": Case(
        SESSION_POLICIES, [], "s3:GetObject", "*", NO_IDENTITY, rest={"session": EVERYTHING}, caller=BY_SESSION
    ),
    "session policy and boundary": Case(
        SESSION_POLICIES,
        [EVERYTHING],
        "s3:GetObject",
        "*",
        NO_BOUNDARY,
        rest={"session": EVERYTHING, "boundary": policy(allow("ec2:*"))},
        caller=BY_SESSION,
    ),
    "deny in a session policy": Case(
        SESSION_POLICIES,
        [EVERYTHING],
        "s3:GetObject",
        "*",
        "with an explicit deny in a session policy",
        rest={"session": policy(allow("*"), deny("s3:*")), "resource": granted_to(SESSION)},
        caller=BY_SESSION,
    ),
    "deny in a boundary": Case(
        BOUNDARIES,
        [EVERYTHING],
        "s3:GetObject",
        "*",
        "with an explicit deny in a permissions boundary",
        rest={"boundary": policy(allow("*"), deny("s3:*")), "resource": granted_to(USER)},
    ),
    "resource in another case": Case(
        RESOURCE, [policy(allow("*", "arn:aws:s3:::B/*"))], "s3:GetObject", "arn:aws:s3:::b/k", NO_IDENTITY
    ),
    "a wildcard within an action": Case(ACTION, [policy(allow("iam:*AccessKey*"))], "iam:ListAccessKeys", "*", None),
    "a question mark within an action": Case(
        ACTION, [policy(allow("s3:?etObject"))], "s3:GetObjectAcl", "*", NO_IDENTITY
    ),
    "a default is not a pattern": Case(
        VARIABLES,
        [policy(allow("s3:*", "arn:aws:s3:::b/${aws:PrincipalTag/team, 'a*'}"))],
        "s3:GetObject",
        "arn:aws:s3:::b/abc",
        NO_IDENTITY,
    ),
    "a variable's name in another case": Case(
        VARIABLES,
        [policy(allow("s3:*", "arn:aws:s3:::b/${AWS:UserName}"))],
        "s3:GetObject",
        "arn:aws:s3:::b/bob",
        None,
        {"aws:username": "bob"},
    ),
    "NotPrincipal denies the others": Case(
        NOT_PRINCIPAL,
        [EVERYTHING],
        "s3:GetObject",
        "*",
        RESOURCE_DENIES,
        rest={
            "resource": policy({"Effect": "Deny", "NotPrincipal": {"AWS": "arn:x"}, "Action": "s3:*", "Resource": "*"})
        },
    ),
    "TLS only": Case(
        OPERATORS,
        [EVERYTHING],
        "s3:GetObject",
        "arn:aws:s3:::b/k",
        RESOURCE_DENIES,
        {"aws:securetransport": "false"},
        {"resource": TLS_ONLY},
    ),
    "with TLS": Case(
        OPERATORS,
        [EVERYTHING],
        "s3:GetObject",
        "arn:aws:s3:::b/k",
        None,
        {"aws:securetransport": "true"},
        {"resource": TLS_ONLY},
    ),
    "submit needs the queue": Case(
        BATCH_QUEUE, [QUEUE1], "batch:SubmitJob", QUEUE.replace("queue1", "queue2"), NO_IDENTITY
    ),
    "submit has the queue": Case(BATCH_QUEUE, [QUEUE1], "batch:SubmitJob", QUEUE, None),
    "submit has the definition": Case(BATCH_QUEUE, [QUEUE1], "batch:SubmitJob", DEFINITION, None),
    "submit without definitions": Case(BATCH_QUEUE, [QUEUE_ONLY], "batch:SubmitJob", DEFINITION, NO_IDENTITY),
    "definition by tag": Case(
        BATCH_TAGS, [CALC], "batch:SubmitJob", DEFINITION, None, {"aws:resourcetag/project": "calc"}
    ),
    "definition without tag": Case(BATCH_TAGS, [CALC], "batch:SubmitJob", DEFINITION, NO_IDENTITY),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_documented_example(case: Case):
    query = Query(case.action, case.resource, case.caller, case.context)
    why = refusal(query, case.identity, **case.rest)
    if case.expected is None:
        assert why is None, case.source
    else:
        assert why is not None, case.source
        assert why.startswith(case.expected), case.source


TAGS_OR_NONE = {"aws:tagkeys": ["preprod", "storage"]}

# operator, key, wanted, context, holds
CONDITIONS: list[tuple[str, str, str, Any, dict[str, Any], bool]] = [
    (
        OPERATORS,
        "StringEquals",
        "aws:PrincipalTag/job",
        "iamuser-admin",
        {"aws:principaltag/job": "iamuser-admin"},
        True,
    ),
    (
        OPERATORS,
        "StringEquals",
        "aws:PrincipalTag/job",
        "iamuser-admin",
        {"aws:principaltag/job": "IAMUser-Admin"},
        False,
    ),
    (OPERATORS, "StringEqualsIgnoreCase", "k", "Admin", {"k": "aDMIN"}, True),
    (OPERATORS, "StringEquals", "k", "a*", {"k": "abc"}, False),
    (OPERATORS, "StringEquals", "k", "v", {}, False),
    (OPERATORS, "StringEqualsIfExists", "k", "v", {}, True),
    (OPERATORS, "StringEqualsIfExists", "k", "v", {"k": "w"}, False),
    (OPERATORS, "StringNotEquals", "k", "v", {}, True),
    (OPERATORS, "StringNotEqualsIfExists", "k", "v", {}, True),
    (OPERATORS, "StringLike", "s3:prefix", ["", "home/*"], {"s3:prefix": "home/bob"}, True),
    (OPERATORS, "StringLike", "s3:prefix", ["", "home/*"], {"s3:prefix": ""}, True),
    (OPERATORS, "StringNotLike", "k", "a*", {"k": "abc"}, False),
    (OPERATORS, "NumericLessThanEquals", "s3:max-keys", "10", {"s3:max-keys": "10"}, True),
    (OPERATORS, "NumericLessThanEquals", "s3:max-keys", 10, {"s3:max-keys": "11"}, False),
    (OPERATORS, "NumericNotEquals", "k", "1", {"k": "1.0"}, False),
    (
        OPERATORS,
        "DateLessThan",
        "aws:CurrentTime",
        "2020-01-01T00:00:01Z",
        {"aws:currenttime": "2019-12-31T23:59:59Z"},
        True,
    ),
    (OPERATORS, "DateGreaterThan", "aws:EpochTime", "1577836800", {"aws:epochtime": "1577836800"}, False),
    (OPERATORS, "Bool", "aws:SecureTransport", False, {"aws:securetransport": "false"}, True),
    (OPERATORS, "Bool", "aws:SecureTransport", "true", {}, False),
    (OPERATORS, "IpAddress", "aws:SourceIp", "203.0.113.0/24", {"aws:sourceip": "203.0.113.7"}, True),
    (OPERATORS, "NotIpAddress", "aws:SourceIp", ["203.0.113.0/24"], {"aws:sourceip": "203.0.113.7"}, False),
    (OPERATORS, "ArnLike", "aws:SourceArn", "arn:aws:sns:*:1:T*", {"aws:sourcearn": "arn:aws:sns:r:1:TOPIC"}, True),
    (OPERATORS, "ArnEquals", "aws:SourceArn", "arn:aws:sns:*:TOPIC", {"aws:sourcearn": "arn:aws:sns:r:1:TOPIC"}, False),
    (
        OPERATORS,
        "ArnNotLike",
        "aws:PrincipalArn",
        "arn:aws:iam::*:role/x*",
        {"aws:principalarn": "arn:aws:iam::1:role/xy"},
        False,
    ),
    (OPERATORS, "Null", "aws:TokenIssueTime", "true", {}, True),
    (OPERATORS, "Null", "aws:TokenIssueTime", "true", {"aws:tokenissuetime": "2020"}, False),
    (OPERATORS, "Null", "aws:RequestTag/team", "false", {"aws:requesttag/team": "x"}, True),
    (OPERATORS, "StringEquals", "AWS:PrincipalTag/JOB", "a", {"aws:principaltag/job": "a"}, True),
    (OPERATORS, "StringNotLike", "k", "a*", {}, True),
    (OPERATORS, "StringNotEqualsIgnoreCase", "k", "ADMIN", {"k": "admin"}, False),
    (OPERATORS, "StringLike", "k", "a?c", {"k": "abc"}, True),
    (OPERATORS, "StringLike", "k", "A*", {"k": "abc"}, False),
    (OPERATORS, "StringLikeIfExists", "k", "a*", {}, True),
    (OPERATORS, "NumericGreaterThan", "k", "9", {"k": "10"}, True),
    (OPERATORS, "NumericEquals", "k", "1", {}, False),
    (OPERATORS, "DateEquals", "k", "2020-01-01T00:00:00", {"k": "1577836800"}, True),
    (OPERATORS, "DateLessThan", "k", "2020-01-01", {"k": "2019-12-31T23:59:59Z"}, True),
    (OPERATORS, "DateGreaterThanEquals", "k", "2020-01-01T01:00:00+01:00", {"k": "2020-01-01T00:00:00Z"}, True),
    (OPERATORS, "BoolIfExists", "aws:SecureTransport", "false", {}, True),
    (OPERATORS, "IpAddress", "aws:SourceIp", "2001:db8::/32", {"aws:sourceip": "2001:db8::7"}, True),
    (OPERATORS, "IpAddress", "aws:SourceIp", "2001:db8::/32", {"aws:sourceip": "203.0.113.7"}, False),
    (OPERATORS, "IpAddress", "aws:SourceIp", "203.0.113.7", {"aws:sourceip": "203.0.113.7"}, True),
    (OPERATORS, "NotIpAddress", "aws:SourceIp", "203.0.113.0/24", {}, True),
    (OPERATORS, "ArnLike", "k", "arn:aws:sns:*:*:*", {"k": "arn:aws:sns:r:1:a:b:c"}, True),
    (OPERATORS, "ArnEquals", "k", "arn:aws:iam::1:role/*", {"k": "arn:aws:iam::1:role/a/b"}, True),
    (OPERATORS, "ArnLike", "k", "arn:aws:iam::1:role/x", {"k": "arn:aws:iam::1:role/X"}, False),
    (OPERATORS, "ArnLike", "k", "arn:aws:iam::1:role/x", {}, False),
    (OPERATORS, "ArnNotEquals", "k", "arn:aws:iam::1:role/x", {}, True),
    (OPERATORS, "Null", "k", "false", {}, False),
    (SET_OPERATORS, "ForAllValues:StringEquals", "aws:TagKeys", ["a"], {"aws:tagkeys": []}, True),
    (SET_OPERATORS, "ForAnyValue:StringLike", "aws:TagKeys", ["pre*"], TAGS_OR_NONE, True),
    (SET_OPERATORS, "ForAnyValue:StringEqualsIfExists", "aws:TagKeys", ["x"], {}, True),
    (SET_OPERATORS, "ForAnyValue:StringNotEquals", "aws:TagKeys", ["x"], {}, False),
    (SET_OPERATORS, "ForAllValues:StringEqualsIgnoreCase", "aws:TagKeys", ["PREPROD", "STORAGE"], TAGS_OR_NONE, True),
    (MULTIPLE, "StringEquals", "k", ["a", "b"], {"k": "b"}, True),
    (MULTIPLE, "StringNotEquals", "k", ["a", "b"], {"k": "b"}, False),
    (MULTIPLE, "StringNotEquals", "k", ["a", "b"], {"k": "c"}, True),
    (MULTIVALUED, "ForAllValues:StringEquals", "aws:TagKeys", ["preprod", "storage"], TAGS_OR_NONE, True),
    (MULTIVALUED, "ForAllValues:StringEquals", "aws:TagKeys", ["preprod"], TAGS_OR_NONE, False),
    (MULTIVALUED, "ForAllValues:StringEquals", "aws:TagKeys", ["preprod"], {}, True),
    (MULTIVALUED, "ForAnyValue:StringEquals", "aws:TagKeys", ["preprod", "x"], TAGS_OR_NONE, True),
    (MULTIVALUED, "ForAnyValue:StringEquals", "aws:TagKeys", ["x"], TAGS_OR_NONE, False),
    (MULTIVALUED, "ForAnyValue:StringEquals", "aws:TagKeys", ["x"], {}, False),
    (MULTIVALUED, "ForAllValues:StringNotLike", "aws:TagKeys", ["x*"], TAGS_OR_NONE, True),
    (MULTIVALUED, "ForAllValues:StringNotLike", "aws:TagKeys", ["pre*"], TAGS_OR_NONE, False),
    (MULTIVALUED, "ForAnyValue:StringNotEquals", "aws:TagKeys", ["preprod"], TAGS_OR_NONE, True),
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_condition_operator(condition: tuple[str, str, str, Any, dict[str, Any], bool]):
    source, operator, key, wanted, context, holds = condition
    document = policy(allow("x:Y", **when(operator, key, wanted)))
    assert (refusal(Query("x:Y", "*", BY_USER, context), [document]) is None) == holds, source


def test_all_conditions_of_a_statement_must_hold():
    both = {"Condition": {"StringEquals": {"a": "1", "b": "2"}, "Bool": {"c": "true"}}}
    document = policy(allow("x:Y", **both))
    holding = {"a": "1", "b": "2", "c": "true"}
    assert refusal(Query("x:Y", "*", BY_USER, holding), [document]) is None
    for key in holding:
        assert refusal(Query("x:Y", "*", BY_USER, {**holding, key: "no"}), [document]), key


def test_an_unmet_condition_of_a_deny_denies_nothing():
    document = policy(allow("x:Y"), deny("x:Y", **when("StringEquals", "k", "v")))
    assert refusal(Query("x:Y", "*", BY_USER, {"k": "w"}), [document]) is None
    assert refusal(Query("x:Y", "*", BY_USER, {"k": "v"}), [document]) == IDENTITY_DENIES


@pytest.mark.parametrize("operator", ["StringSounds", "ForSomeValues:StringEquals", "Not", ""])
def test_an_unknown_operator_is_an_error(operator: str):
    document = policy(allow("x:Y", **when(operator, "k", "v")))
    with pytest.raises(PolicyError, match="not known"):
        refusal(Query("x:Y", "*", BY_USER, {"k": "v"}), [document])


def test_a_principal_that_is_a_bare_name_is_an_error():
    with pytest.raises(PolicyError, match="neither an object nor"):
        refusal(Query("x:Y", "*", BY_USER), [], policy(allow("x:Y", Principal="arn:aws:iam::1:user/x")))


def test_a_single_statement_needs_no_list():
    document = parse(json.dumps({"Version": "2012-10-17", "Statement": allow("x:Y")}))
    assert refusal(Query("x:Y", "*", BY_USER), [document]) is None
