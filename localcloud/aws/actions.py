"""What a request means to IAM: its actions, their resources and their condition keys.

Operations come from botocore's service models; an unknown operation is refused. The source of actions and resources is
https://docs.aws.amazon.com/service-authorization/latest/reference/ (one page per service). For a service that is not
listed here, the action is the operation and the resource is the ARN among the parameters, or ``*``. This can refuse a
policy with a narrower resource that AWS would allow, but it never allows what AWS would refuse.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, unquote

from botocore.exceptions import DataNotFoundError, UnknownServiceError

from localcloud.aws import efs
from localcloud.aws.accounts import ACCOUNT, boundary_of
from localcloud.aws.ec2_actions import ec2_resources, tagged_on_creation
from localcloud.aws.errors import AwsError
from localcloud.aws.models import service_model
from localcloud.aws.s3_actions import s3_checks
from localcloud.aws.signature import Scope
from localcloud.aws.wsgi import Environ

# Signing names that differ from botocore's model name and from the prefix of the IAM actions.
MODELS = {"monitoring": "cloudwatch", "elasticfilesystem": "efs", "servicequotas": "service-quotas"}
PREFIXES = {"monitoring": "cloudwatch"}


@dataclass(frozen=True)
class Check:
    """One question to IAM: an action on a resource, with its own condition keys (lower case)."""

    action: str
    resource: str
    context: dict[str, str | list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class AwsCall:
    """An API call, with the service's own names of the operation and its parameters."""

    service: str
    operation: str
    region: str
    params: dict[str, Any]
    checks: list[Check]


@lru_cache(maxsize=64)
def _model(signing_name: str) -> Any:
    try:
        return service_model(MODELS.get(signing_name, signing_name))
    except (DataNotFoundError, UnknownServiceError):
        return None


def protocol_of(environ: Environ, scope: Scope) -> str:
    """Return the protocol in which the caller expects an answer."""
    if "HTTP_X_AMZ_TARGET" in environ:
        return "json"
    model = _model(scope.service)
    return model.metadata["protocol"] if model and not _is_query(environ, model) else "query"


def read_call(environ: Environ, scope: Scope) -> AwsCall:
    """Return the call that a signed request makes.

    Raises:
        AwsError: AccessDenied if no service model has the operation.
    """
    name = "s3control" if scope.service == "s3" and environ["PATH_INFO"].startswith("/v20180820/") else scope.service
    model = _model(name)
    operation, params = _decode(environ, model) if model else (None, {})
    if model is None or operation is None or operation not in model.operation_names:
        what = operation or f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        raise AwsError("AccessDenied", f"{scope.service}: {what} is not an operation that localcloud knows")
    if name == "s3":
        checks = [Check(*check) for check in s3_checks(operation, params, environ, scope.region)]
    else:
        prefix = PREFIXES.get(scope.service, scope.service)
        checks = list(_checks(prefix, operation, params, scope.region))
    return AwsCall(scope.service, operation, scope.region, params, checks)


def _decode(environ: Environ, model: Any) -> tuple[str | None, dict[str, Any]]:
    path, body = environ["PATH_INFO"], environ["localcloud.body"]
    if target := environ.get("HTTP_X_AMZ_TARGET"):
        return target.rpartition(".")[2], _json(body)
    if found := re.match(r"/service/\w+/operation/(\w+)$", path):
        return found[1], {}
    if model.metadata["protocol"] in {"query", "ec2"} or _is_query(environ, model):
        fields = parse_qs(environ["QUERY_STRING"] + "&" + body.decode(errors="replace"), keep_blank_values=True)
        params = {key: values[0] for key, values in fields.items()}
        return params.get("Action"), {**params, **_lists(params)}
    return _match(environ, model)


def _is_query(environ: Environ, model: Any) -> bool:
    """Whether a call is in the query protocol of a service with several, as other SDKs speak to CloudWatch."""
    form = environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded")
    return form and "query" in model.metadata.get("protocols", ())


def _lists(params: dict[str, str]) -> dict[str, list[str]]:
    """Lists of texts in the query protocol, ``AlarmNames.member.1``, by name."""
    found: dict[str, list[str]] = {}
    for key, value in params.items():
        if listed := re.fullmatch(r"(\w+)\.member\.\d+", key):
            found.setdefault(listed[1], []).append(value)
    return found


def _json(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body or b"{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


@dataclass(frozen=True)
class _Route:
    """How to recognise a REST operation: its path and the query keys and headers that it requires."""

    name: str
    path: re.Pattern[str]
    query: dict[str, str]
    headers: frozenset[str]


@lru_cache(maxsize=64)
def _routes(model: Any, method: str) -> list[_Route]:
    operations = (model.operation_model(name) for name in model.operation_names)
    routes = [_route(operation) for operation in operations if operation.http["method"] == method]
    return sorted(routes, key=lambda route: len(route.query) + len(route.headers), reverse=True)


def _route(operation: Any) -> _Route:
    path, _, query = operation.http["requestUri"].partition("?")
    pattern = re.sub(r"\\\{(\w+)(\\\+)?\\\}", lambda f: f"(?P<{f[1]}>{'.+' if f[2] else '[^/]+'})", re.escape(path))
    wanted = {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
    shape = operation.input_shape
    required = [shape.members[name].serialization for name in shape.required_members] if shape else []
    wanted |= {each["name"]: "" for each in required if each.get("location") == "querystring"}
    headers = frozenset(each["name"].lower() for each in required if each.get("location") == "header")
    return _Route(operation.name, re.compile(pattern + "/?"), wanted, headers)


def _match(environ: Environ, model: Any) -> tuple[str | None, dict[str, Any]]:
    path, _, query = environ["RAW_URI"].partition("?")
    given = {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
    for route in _routes(model, environ["REQUEST_METHOD"]):
        found = route.path.fullmatch(path)
        if not found or any(key not in given or value not in {"", given[key]} for key, value in route.query.items()):
            continue
        if all(f"HTTP_{name.upper().replace('-', '_')}" in environ for name in route.headers):
            params = {name: unquote(value) for name, value in found.groupdict().items()}
            body = _json(environ["localcloud.body"]) if model.metadata["protocol"] == "rest-json" else {}
            return route.name, {**given, **body, **params}
    return None, {}


# The parameter that names the resource → the part of its ARN after the account. The first one present counts.
RESOURCES: dict[str, dict[str, str]] = {
    "batch": {
        "resourceArn": "{}",
        "jobId": "job/{}",
        "computeEnvironmentName": "compute-environment/{}",
        "computeEnvironment": "compute-environment/{}",
        "jobQueueName": "job-queue/{}",
        "jobDefinitionName": "job-definition/{}",
        "jobDefinition": "job-definition/{}",
        "jobQueue": "job-queue/{}",
        "name": "scheduling-policy/{}",
        "arn": "{}",
    },
    "budgets": {"BudgetName": "budget/{}", "ResourceARN": "{}"},
    "cloudwatch": {
        "AlarmName": "alarm:{}",
        "AlarmNames": "alarm:{}",
        "DashboardName": "dashboard/{}",
        "DashboardNames": "dashboard/{}",
        "ResourceARN": "{}",
    },
    "elasticfilesystem": {
        "FileSystemId": "file-system/{}",
        "AccessPointId": "access-point/{}",
        "ResourceId": "{}",
        "CreationToken": "file-system/*",
    },
    "lambda": {"FunctionName": "function:{}", "Resource": "{}"},
    "scheduler": {"ResourceArn": "{}"},
    "sqs": {"QueueName": "{}"},
    "events": {"Name": "rule/{}", "Rule": "rule/{}", "ResourceARN": "{}"},
    "sns": {"TopicArn": "{}", "ResourceArn": "{}", "SubscriptionArn": "{}", "Name": "{}"},
    "ecr": {"repositoryName": "repository/{}", "repositoryNames": "repository/{}", "resourceArn": "{}"},
    "firehose": {"DeliveryStreamName": "deliverystream/{}"},
    "kms": {"KeyId": "key/{}", "TargetKeyId": "key/{}", "AliasName": "{}"},
    "secretsmanager": {"SecretId": "secret:{}", "Name": "secret:{}"},
    "ssm": {"Name": "parameter/{}", "Names": "parameter/{}", "Path": "parameter/{}"},
    "iam": {
        "RoleName": "role/{}",
        "UserName": "user/{}",
        "InstanceProfileName": "instance-profile/{}",
        "PolicyArn": "{}",
        "PolicyName": "policy/{}",
        "OpenIDConnectProviderArn": "{}",
    },
    "sts": {"RoleArn": "{}"},
}
# Operations of these services without a resource: describing and listing requires ``*``.
WITHOUT_RESOURCE = {
    "batch": re.compile(r"Describe|List(?!TagsForResource)"),
    "cloudwatch": re.compile(r"DescribeAlarms|List(?!TagsForResource)"),
    "ecr": re.compile(r"GetAuthorizationToken"),
    "firehose": re.compile(r"List"),
    "logs": re.compile(r"GetQueryResults|StopQuery|\w+QueryDefinition"),
    "secretsmanager": re.compile(r"List|GetRandomPassword|BatchGet"),
    "iam": re.compile(r"List(Roles|Users|Policies|InstanceProfiles)$"),
}
# Actions that cover many operations: https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbudgetservice.html
COVERING = {"budgets": ((re.compile(r"Describe"), "ViewBudget"), (re.compile(r"(?!.*Tag)"), "ModifyBudget")),
            "lambda": ((re.compile(r"Invoke$"), "InvokeFunction"),),
            "sqs": tuple((re.compile(f"{name}Batch$"), name) for name in ("SendMessage", "DeleteMessage"))}  # fmt: skip
# Calls that hand a role to a service: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
PASSING = {"RegisterJobDefinition": "ecs-tasks", "CreateComputeEnvironment": "ec2", "UpdateComputeEnvironment": "ec2",
           "CreateDeliveryStream": "firehose", "PutSubscriptionFilter": "logs", "RunInstances": "ec2",
           "AddRoleToInstanceProfile": "ec2",
           "CreateFunction": "lambda", "UpdateFunctionConfiguration": "lambda", "CreateSchedule": "scheduler",
           "UpdateSchedule": "scheduler"}  # fmt: skip
ROLE = re.compile(rf"arn:aws:iam::{ACCOUNT}:role/[\w+=,.@/-]+")


def _checks(prefix: str, operation: str, params: dict[str, Any], region: str) -> Iterator[Check]:
    context = _request_tags(params)
    if prefix == "batch" and "shareIdentifier" in params:
        context["batch:shareidentifier"] = params["shareIdentifier"]
    if prefix == "sts":
        context |= {f"sts:{key.lower()}": params[key] for key in ("ExternalId", "RoleSessionName") if key in params}
    action = next((name for rule, name in COVERING.get(prefix, ()) if rule.match(operation)), operation)
    if prefix == "iam":
        boundary = params.get("PermissionsBoundary") or boundary_of(params.get("RoleName", ""))
        context |= {"iam:permissionsboundary": boundary} if boundary else {}
    for resource in _resources(prefix, operation, params, region):
        yield Check(f"{prefix}:{action}", resource, context)
        if prefix == "sts" and "aws:tagkeys" in context:
            yield Check("sts:TagSession", resource, context)
        if prefix == "ec2" and resource.endswith("/*") and tagged_on_creation(operation, params):
            yield Check("ec2:CreateTags", resource, context | {"ec2:createaction": operation})
    if (prefix, operation) == ("batch", "SubmitJob") and context.get("aws:tagkeys"):
        # Seen on AWS: SubmitJob with tags also requires batch:TagResource on the job definition
        # (https://github.com/wri/gfw-data-api/pull/175).
        yield Check(
            "batch:TagResource", _arn(prefix, "job-definition/{}", params.get("jobDefinition", ""), region), context
        )
    if operation in PASSING:
        for role in sorted(set(ROLE.findall(json.dumps(params)))):
            yield Check("iam:PassRole", role, {"iam:passedtoservice": f"{PASSING[operation]}.amazonaws.com"})


def _resources(prefix: str, operation: str, params: dict[str, Any], region: str) -> list[str]:
    if prefix == "logs" and not WITHOUT_RESOURCE[prefix].match(operation):
        groups = params.get("logGroupNames") or params.get("logGroupIdentifiers") or []
        return [_log_resource({"logGroupIdentifier": group}, region) for group in groups] or [
            _log_resource(params, region)
        ]
    if (prefix, operation) == ("batch", "SubmitJob"):
        # Both are required: https://docs.aws.amazon.com/batch/latest/userguide/iam-example-restrict-job-queue.html
        named = {"job-definition/{}": params.get("jobDefinition"), "job-queue/{}": params.get("jobQueue")}
        return [_arn(prefix, template, str(name), region) for template, name in named.items()]
    if prefix == "ec2":
        return [f"arn:aws:ec2:{region}:{ACCOUNT}:{each}" for each in ec2_resources(operation, params)] or ["*"]
    if (prefix, operation) == ("kms", "Decrypt") and "KeyId" not in params:
        # A ciphertext identifies its key; moto's begins with the key id.
        params = {"KeyId": b64decode(params.get("CiphertextBlob", ""))[:36].decode(errors="replace")}
    if prefix == "scheduler" and "Name" in params:
        group = params.get("GroupName") or params.get("groupName") or "default"
        kind = "schedule-group" if operation.endswith("Group") else f"schedule/{group}"
        params = {**params, "ResourceArn": f"{kind}/{params['Name']}"}
    if prefix == "sqs" and "QueueUrl" in params:
        params = {**params, "QueueName": params["QueueUrl"].rpartition("/")[2]}
    if prefix == "elasticfilesystem":
        params = {**params, **_of_efs(params, region)}
    if prefix == "budgets":
        params = params | params.get("Budget", {}) | params.get("NewBudget", {})
    free = WITHOUT_RESOURCE.get(prefix)
    if free and free.match(operation):
        return ["*"]
    for name, template in RESOURCES.get(prefix, {}).items():
        if value := params.get(name):
            return [
                _arn(prefix, template, str(each), region) for each in (value if isinstance(value, list) else [value])
            ]
    named = [v for k, v in params.items() if k.lower().endswith("arn") and isinstance(v, str) and v.startswith("arn:")]
    return named[:1] or ["*"]


def _of_efs(params: dict[str, Any], region: str) -> dict[str, str]:
    """A mount target counts as its file system; the kind of a tagged resource is in its id."""
    found = {"FileSystemId": efs.of_target(params["MountTargetId"], region)} if "MountTargetId" in params else {}
    name = params.get("ResourceId", "")
    kind = "access-point" if name.startswith("fsap-") else "file-system"
    return found | ({"ResourceId": f"{kind}/{name}"} if name else {})


def _arn(prefix: str, template: str, name: str, region: str) -> str:
    if name.startswith("arn:"):
        return name
    regional = prefix not in {"budgets", "iam", "sts"} and not template.startswith("dashboard/")
    where = region if regional else ""
    return f"arn:aws:{prefix}:{where}:{ACCOUNT}:{template.format(name.lstrip('/') if prefix == 'ssm' else name)}"


def _log_resource(params: dict[str, Any], region: str) -> str:
    """Logs checks every call against streams: ``log-group:<name>:log-stream:<name or nothing>``.

    Source: https://github.com/hashicorp/terraform-provider-aws/issues/8804, https://github.com/aws/aws-cli/issues/3578
    """
    if arn := params.get("resourceArn"):
        return arn
    group = params.get("logGroupName") or ""
    if identifier := params.get("logGroupIdentifier"):
        group = identifier.split(":log-group:")[-1].removesuffix(":*")
    return f"arn:aws:logs:{region}:{ACCOUNT}:log-group:{group}:log-stream:{params.get('logStreamName') or ''}"


def _request_tags(params: dict[str, Any]) -> dict[str, str | list[str]]:
    tags = params.get("tags") or params.get("Tags") or {}
    if isinstance(tags, list):  # Key and Value; KMS uses TagKey and TagValue
        pairs = [tag.items() for tag in tags if isinstance(tag, dict)]
        listed = [{name.lower().removeprefix("tag"): text for name, text in pair} for pair in pairs]
        tags = {tag["key"]: tag.get("value", "") for tag in listed if "key" in tag}
    # The query protocols; a launch template's data has the tags of its machines.
    flat = [name for name in params if re.match(r"(?!LaunchTemplateData\.).*Tags?\..*\.Key$", name)]
    tags = tags or {params[name]: params.get(f"{name[:-3]}Value", "") for name in flat}
    context: dict[str, str | list[str]] = {f"aws:requesttag/{key.lower()}": value for key, value in tags.items()}
    if tags:
        context["aws:tagkeys"] = [str(key) for key in tags]
    return context
