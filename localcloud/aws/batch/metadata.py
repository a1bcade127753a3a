"""What a machine offers its programs: EC2 instance metadata and the ECS agent's task credentials.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from localcloud.aws.accounts import ACCOUNT, RoleRefusedError, role_credentials
from localcloud.aws.batch.core import Json
from localcloud.aws.batch.instance import Instance
from localcloud.aws.wsgi import respond

TOKEN = "/latest/api/token"
LONGEST_TOKEN = 21600


def stamp(seconds: float) -> str:
    """Format seconds since the epoch as instance metadata does."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class InstanceMetadata:
    """169.254.169.254 of one machine: always version 2, and version 1 unless the launch template requires tokens."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._tokens: dict[str, float] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        return respond(start_response, *self._answer(environ), "text/plain")

    def _answer(self, environ: dict[str, Any]) -> tuple[int, bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == TOKEN and method == "PUT":
            return self._token(environ)
        if method != "GET":
            return 405, b""
        given = environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN")
        if given is not None and self._tokens.get(given, 0) < time.monotonic():
            return 401, b""
        if given is None and self._instance.tokens_required:
            return 401, b""
        content = self._content(path)
        return (404, b"") if content is None else (200, content.encode())

    def _token(self, environ: dict[str, Any]) -> tuple[int, bytes]:
        wanted = environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS", "")
        if not wanted.isdigit() or not 1 <= int(wanted) <= LONGEST_TOKEN or "HTTP_X_FORWARDED_FOR" in environ:
            return 400, b""
        token = secrets.token_urlsafe(40)
        self._tokens[token] = time.monotonic() + int(wanted)
        return 200, token.encode()

    def _content(self, path: str) -> str | None:
        instance = self._instance
        name = instance.role_arn.split("/")[-1]
        facts: dict[str, Callable[[], str | None]] = {
            "dynamic/instance-identity/document": lambda: json.dumps(self._identity()),
            "meta-data/instance-id": lambda: instance.id,
            "meta-data/instance-type": lambda: instance.type.name,
            "meta-data/instance-life-cycle": lambda: "spot" if instance.spot else "on-demand",
            "meta-data/services/domain": lambda: "amazonaws.com",
            "meta-data/placement/region": lambda: instance.environment.region,
            "meta-data/placement/availability-zone": lambda: instance.zone,
            "meta-data/iam/info": self._profile,
            "meta-data/iam/security-credentials": lambda: name,
            f"meta-data/iam/security-credentials/{name}": self._credentials,
            "meta-data/spot/instance-action": self._notice,
            "meta-data/events/recommendations/rebalance": self._hint,
        }
        found = facts.get(path.removeprefix("/latest/").rstrip("/"))
        return found() if found else None

    def _notice(self) -> str | None:
        ends = self._instance.ends_at
        return None if ends is None else json.dumps({"action": "terminate", "time": stamp(ends)})

    def _hint(self) -> str | None:
        given = self._instance.hinted_at
        return None if given is None else json.dumps({"noticeTime": stamp(given)})

    def _profile(self) -> str:
        profile = self._instance.environment.resources["instanceRole"]
        return json.dumps({"Code": "Success", "InstanceProfileArn": profile, "InstanceProfileId": "AIPALOCALCLOUD"})

    def _credentials(self) -> str:
        given = role_credentials(self._instance.role_arn, self._instance.id, "ec2.amazonaws.com")
        head = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": stamp(time.time())}
        return json.dumps(head | given)

    def _identity(self) -> Json:
        instance = self._instance
        return {
            "accountId": ACCOUNT,
            "architecture": instance.type.architecture,
            "availabilityZone": instance.zone,
            "instanceId": instance.id,
            "instanceType": instance.type.name,
            "region": instance.environment.region,
            "version": "2017-09-30",
        }


class TaskCredentials:
    """169.254.170.2 of one machine: a task's role, for anyone who knows the task's secret path."""

    def __init__(self) -> None:
        self._roles: dict[str, tuple[str, str]] = {}

    def add(self, role: str, session: str) -> str:
        """Offer a role's credentials, and return the relative URI to pass to the task."""
        path = f"/v2/credentials/{secrets.token_hex(16)}"
        self._roles[path] = (role, session)
        return path

    def remove(self, path: str | None) -> None:
        """Stop offering them because the task has ended."""
        self._roles.pop(path or "", None)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        role, session = self._roles.get(environ["PATH_INFO"], ("", ""))
        try:
            if not role:
                raise RoleRefusedError("no such task")
            content: Json = {"RoleArn": role} | role_credentials(role, session, "ecs-tasks.amazonaws.com")
            status = 200
        except RoleRefusedError as error:
            content, status = {"code": "NoIdInRequest", "message": str(error)}, 400
        return respond(start_response, status, json.dumps(content).encode(), "application/json")
