"""The REST-JSON protocol of AWS Batch, checked against botocore's own service model in both directions."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from botocore.validate import ParamValidator

from localcloud.aws.batch.core import BatchError, Json, invalid
from localcloud.aws.models import service_model
from localcloud.aws.wsgi import respond

TAGS = "/v1/tags/"


def model() -> Any:
    """The service model that boto3 itself uses."""
    return service_model("batch")


@lru_cache(maxsize=1)
def _operations() -> dict[tuple[str, str], str]:
    operations = (model().operation_model(name) for name in model().operation_names)
    return {(each.http["method"], each.http["requestUri"]): each.name for each in operations}


def problems(shape: Any, value: Any) -> str:
    """Say where a value does not fit its shape: unknown and missing members, types, enums, lengths. Empty if it fits.

    Args:
        shape: The shape of the request or answer, or None if the model has none.
        value: Decoded JSON.
    """
    if shape is None:
        return "no content is expected" if value else ""
    report = ParamValidator().validate(value, shape).generate_report()
    return report or "; ".join(_outside(shape, value, ""))


def _outside(shape: Any, value: Any, path: str) -> list[str]:
    if shape.type_name == "structure":
        return [e for name, item in value.items() for e in _outside(shape.members[name], item, f"{path}.{name}")]
    if shape.type_name == "list":
        return [e for i, item in enumerate(value) for e in _outside(shape.member, item, f"{path}[{i}]")]
    if shape.type_name == "map":
        return [e for key, item in value.items() for e in _outside(shape.value, item, f"{path}.{key}")]
    if shape.type_name == "string" and shape.enum and value not in shape.enum:
        return [f"{path.lstrip('.')}: {value!r} is not one of {', '.join(shape.enum)}"]
    longest = shape.metadata.get("max")
    if longest is not None and isinstance(value, str) and len(value) > longest:
        return [f"{path.lstrip('.')}: longer than {longest} characters"]
    return []


def decode(environ: dict[str, Any]) -> tuple[str, Json]:
    """Return the operation that a request calls, and its parameters.

    Args:
        environ: The WSGI environ; ``localcloud.body`` is used if a middleware has already read the body.

    Raises:
        BatchError: The operation does not exist, or the service model does not have the parameters.
    """
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    params: Json = {}
    if path.startswith(TAGS):
        params["resourceArn"] = path.removeprefix(TAGS)
        path = TAGS + "{resourceArn}"
    name = _operations().get((method, path))
    if name is None:
        raise BatchError(f"AWS Batch has no {method} {path}", "UnknownOperationException", 404)
    if method == "DELETE":
        params["tagKeys"] = parse_qs(environ.get("QUERY_STRING", "")).get("tagKeys", [])
    body = environ.get("localcloud.body")
    if body is None:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["localcloud.body"] = body
    try:
        params |= json.loads(body or b"{}")
    except (ValueError, TypeError) as error:
        raise BatchError(f"the body is not a JSON object: {error}", "SerializationException") from None
    if wrong := problems(model().operation_model(name).input_shape, params):
        raise invalid(f"{wrong}")
    return name, params


class BatchWsgi:
    """Batch's HTTP API. It reads ``localcloud.region`` and ``localcloud.principal`` from the environ."""

    decode = staticmethod(decode)

    def __init__(self, api: Callable[[str, Json, Any, str], Json]) -> None:
        self._api = api

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        try:
            operation, params = decode(environ)
            region = environ.get("localcloud.region") or "us-west-2"
            content = self._api(operation, params, environ.get("localcloud.principal"), region)
            if wrong := problems(model().operation_model(operation).output_shape, content):
                raise AssertionError(f"the answer of {operation} does not fit the service model: {wrong}")
            status, headers = 200, {}
        except BatchError as error:
            content, status, headers = {"message": str(error)}, error.status, {"x_amzn_ErrorType": error.code}
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            content, status = {"message": f"localcloud failed: {error}"}, 500
            headers = {"x_amzn_ErrorType": "ServerException"}
        return respond(start_response, status, json.dumps(content).encode(), "application/json", **headers)
