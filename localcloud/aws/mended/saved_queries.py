"""Saved queries of CloudWatch Logs, which moto lacks.

https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutQueryDefinition.html
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from moto.logs.exceptions import ResourceNotFoundException
from moto.logs.responses import LogsResponse

from localcloud.aws.mended.insights import parse
from localcloud.aws.mended.method import method

_KEYS = ("name", "queryString", "logGroupNames")


def _saved(response: LogsResponse) -> dict[str, dict[str, Any]]:
    """A region's queries by their id."""
    return response.logs_backend.__dict__.setdefault("localcloud_queries", {})


@method(LogsResponse, "put_query_definition")
def _put(response: LogsResponse) -> str:
    id_, given = response._get_param("queryDefinitionId"), {key: response._get_param(key) for key in _KEYS}
    if id_ is not None and id_ not in _saved(response):
        raise ResourceNotFoundException
    parse(given["queryString"])
    id_ = id_ or str(uuid.uuid4())
    known = {key: value for key, value in given.items() if value is not None}
    _saved(response)[id_] = {"queryDefinitionId": id_, "lastModified": int(time.time() * 1000), **known}
    return json.dumps({"queryDefinitionId": id_})


@method(LogsResponse, "describe_query_definitions")
def _describe(response: LogsResponse) -> str:
    begin = response._get_param("queryDefinitionNamePrefix") or ""
    found = [each for each in _saved(response).values() if each["name"].startswith(begin)]
    return json.dumps({"queryDefinitions": found})


@method(LogsResponse, "delete_query_definition")
def _delete(response: LogsResponse) -> str:
    if _saved(response).pop(response._get_param("queryDefinitionId"), None) is None:
        raise ResourceNotFoundException
    return json.dumps({"success": True})
