"""The front door: control paths, then authentication, then authorization, then the service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from localcloud.aws import accounts
from localcloud.aws.actions import AwsCall, protocol_of, read_call
from localcloud.aws.authorize import authorize, why_refused
from localcloud.aws.errors import AwsError, answer_error
from localcloud.aws.public import unsigned_scope
from localcloud.aws.signature import authenticate, read_scope
from localcloud.aws.wsgi import Environ, StartResponse, WsgiApp, respond

CONTROL = "/_localcloud/"
_NOBODY = "AWS4-HMAC-SHA256 Credential=anonymous/20261126/us-east-1/s3/aws4_request"
Control = Callable[[dict[str, Any]], Any]
Tags = Callable[[str, str], Mapping[str, str]]


class Gateway:
    """WSGI app in front of every service.

    Args:
        services: Apps by signing name; moto serves all others.
        control: What ``/_localcloud/<name>`` calls with the request's JSON; it returns JSON.
        tags: (ARN, region) → tags of a resource, by service, for ``aws:ResourceTag``.
        unsigned: Apps by path prefix, which answer anyone who knows the path.
    """

    def __init__(
        self,
        services: Mapping[str, WsgiApp],
        control: Mapping[str, Control],
        tags: Mapping[str, Tags],
        unsigned: Mapping[str, WsgiApp],
    ) -> None:
        self._services = services
        self._unsigned = unsigned
        self._control = control
        self._tags = tags

    def __call__(self, environ: Environ, start_response: StartResponse) -> Any:
        if environ["PATH_INFO"].startswith(CONTROL):
            return self._answer_control(environ, start_response)
        for prefix, app in self._unsigned.items():
            if environ["PATH_INFO"].startswith(prefix):
                return app(environ, start_response)
        protocol = "query"
        try:
            scope = read_scope(environ)
            anonymous = None if scope else unsigned_scope(environ)
            scope = scope or anonymous
            if scope is None:
                raise AwsError("MissingAuthenticationToken", "Request is missing Authentication Token")
            protocol = protocol_of(environ, scope)
            principal = accounts.ANONYMOUS if anonymous else authenticate(environ, scope)
            call = read_call(environ, scope)
            self._authorize(principal, call, environ)
            environ |= {"localcloud.principal": principal, "localcloud.region": scope.region}
            if anonymous:
                # moto decides by ACLs alone who may read without a signature. The gateway has already decided.
                environ["HTTP_AUTHORIZATION"] = _NOBODY
            service = self._services.get(scope.service, accounts.moto)
            if call.service == "s3" and call.operation in {"GetObject", "HeadObject"}:
                return _without_leak(service, principal, call, environ, start_response)
            return service(environ, start_response)
        except AwsError as error:
            return answer_error(error, protocol, start_response)

    def _authorize(self, principal: accounts.Principal, call: AwsCall, environ: Environ) -> None:
        context = {
            "aws:requestedregion": call.region,
            "aws:sourceip": environ.get("REMOTE_ADDR", "127.0.0.1"),
            "aws:useragent": environ.get("HTTP_USER_AGENT", ""),
            # Loopback counts as TLS; a header lets a client see what plain HTTP would get.
            "aws:securetransport": "false" if "HTTP_X_LOCALCLOUD_INSECURE" in environ else "true",
        }
        tags = self._tags.get(call.service)
        for check in call.checks:
            own = tags(check.resource, call.region) if tags and check.resource != "*" else {}
            known = {f"aws:resourcetag/{key.lower()}": value for key, value in own.items()}
            authorize(principal, check.action, check.resource, context | known | check.context)

    def _answer_control(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        name = environ["PATH_INFO"].removeprefix(CONTROL)
        if name not in self._control:
            known = ", ".join(sorted(self._control))
            return respond(start_response, 404, f"no control {name!r}; there are {known}\n".encode(), "text/plain")
        try:
            answer = self._control[name](json.loads(environ["localcloud.body"] or b"{}"))
        except (KeyError, ValueError, TypeError, re.error, accounts.RoleRefusedError) as error:
            return respond(start_response, 400, f"{name}: {error!r}\n".encode(), "text/plain")
        return respond(start_response, 200, json.dumps(answer).encode(), "application/json")


def _without_leak(
    service: WsgiApp, principal: accounts.Principal, call: AwsCall, environ: Environ, start_response: StartResponse
) -> Any:
    """Answer 403 instead of 404 to callers who may not list the bucket at that key.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html; the key counts as ``s3:prefix``:
    https://github.com/ceph/ceph/pull/68577.
    """
    answered: list[Any] = []
    content = service(environ, lambda *args: answered.append(args))
    if answered[-1][0].startswith("404") and accounts.has_bucket(call.params["Bucket"]):
        bucket, key = f"arn:aws:s3:::{call.params['Bucket']}", call.params["Key"]
        if why_refused(principal, "s3:ListBucket", bucket, {"s3:prefix": key}):
            raise AwsError("AccessDenied", "Access Denied")
    start_response(*answered[-1])
    return content
