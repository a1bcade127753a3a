"""Field indexes of log groups, which moto lacks.

https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutIndexPolicy.html
"""

from __future__ import annotations

import json
from typing import Any

from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.responses import LogsResponse

from localcloud.aws.mended.method import method

MOST_FIELDS, FIELD_CHARACTERS = 20, 100


def _group(response: LogsResponse, identifier: str) -> Any:
    """A log group by its name or its ARN."""
    name = identifier.rsplit(":log-group:", maxsplit=1)[-1]
    if name not in response.logs_backend.groups:
        raise ResourceNotFoundException
    return response.logs_backend.groups[name]


@method(LogsResponse, "put_index_policy")
def _put(response: LogsResponse) -> str:
    group, text = _group(response, response._get_param("logGroupIdentifier")), response._get_param("policyDocument")
    try:
        fields = json.loads(text)["Fields"]
    except (ValueError, KeyError, TypeError):
        raise InvalidParameterException(msg="policyDocument is no JSON with Fields") from None
    if not 0 < len(fields) <= MOST_FIELDS or any(len(each) > FIELD_CHARACTERS for each in fields):
        raise InvalidParameterException(msg=f"Fields are 1 to {MOST_FIELDS}, each of {FIELD_CHARACTERS} characters")
    group.index_policy = text
    return json.dumps({"indexPolicy": _shown(group)})


def _shown(group: Any) -> dict[str, Any]:
    return {"logGroupIdentifier": group.arn.removesuffix(":*"), "policyDocument": group.index_policy}


@method(LogsResponse, "describe_index_policies")
def _describe(response: LogsResponse) -> str:
    groups = [_group(response, each) for each in response._get_param("logGroupIdentifiers")]
    return json.dumps({"indexPolicies": [_shown(group) for group in groups if hasattr(group, "index_policy")]})


@method(LogsResponse, "delete_index_policy")
def _delete(response: LogsResponse) -> str:
    group = _group(response, response._get_param("logGroupIdentifier"))
    if not hasattr(group, "index_policy"):
        raise ResourceNotFoundException
    del group.index_policy
    return "{}"
