"""Callers: users and role sessions from moto's IAM and STS, and clients that act as AWS itself.

This module reads moto's in-process backends, so the resources that the stack created decide.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ |= {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true", "S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true"}
# For the account of a session's key, moto would ask each partition and read its managed policies first. A second
# localcloud whose environment has another number is another account.
os.environ.setdefault("MOTO_ACCOUNT_ID", "123456789012")
# A thousand images, which nothing here names.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"

import localcloud.aws.models  # noqa: F401  # isort: skip  (before moto)

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from moto.core.botocore_stubber import MockRawResponse
from moto.iam.access_control import PermissionResult
from moto.iam.models import IAMBackend, ManagedPolicy, Role, iam_backends
from moto.kms.models import kms_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import FakeBucket, s3_backends
from moto.sts.models import AssumedRole, sts_backends
from werkzeug.test import create_environ, run_wsgi_app

from localcloud.aws.iam import DIRECT, Query, parse, refusal
from localcloud.aws.wsgi import Environ, StartResponse

ACCOUNT = os.environ["MOTO_ACCOUNT_ID"]
DEPLOYER = "deployer"
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"


@dataclass(frozen=True)
class Principal:
    """The caller of an operation.

    Attributes:
        arn: The ARN that GetCallerIdentity returns, of the user or of the role's session.
        issuer: ``aws:PrincipalArn``, the ARN of the user or of the role behind the session.
        kind: ``User``, ``AssumedRole`` or ``Anonymous`` (``aws:PrincipalType``).
        name: The name of the user or role.
        user_id: ``aws:userid``.
        session_policy: The inline policy passed to AssumeRole, as JSON.
    """

    arn: str
    issuer: str
    kind: str
    name: str
    user_id: str
    session_policy: str | None = None

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody has signed."""
        return self.kind == "Anonymous"

    @property
    def is_role(self) -> bool:
        """Whether this is a role's session."""
        return self.kind == "AssumedRole"


ANONYMOUS = Principal("anonymous", "anonymous", "Anonymous", "anonymous", "anonymous")


@dataclass(frozen=True)
class AccessKey:
    """An access key that signs requests, and its owner."""

    secret: str
    principal: Principal
    token: str | None = None
    expires: datetime | None = None


class RoleRefusedError(Exception):
    """A role does not exist, or its trust policy does not let the service assume it."""


class Moto:
    """moto's WSGI app behind one lock. Its backends are plain dictionaries, and its calls only compute."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._app = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        with self.lock:
            return list(self._app(environ, start_response))


moto = Moto()

# moto also reads bucket policies and treats each unmet condition as a deny. The gateway has already decided.
FakeBucket.get_permission = lambda self, action, resource: PermissionResult.NEUTRAL  # type: ignore[method-assign]


def iam() -> IAMBackend:
    return iam_backends[ACCOUNT]["aws"]


def create_deployer(credentials: Path) -> None:
    """Create the administrator whose key ``localcloud env`` exports.

    Args:
        credentials: JSON with ``access_key_id`` and ``secret_access_key``, mode 600. An existing file keeps its key, so
            a restarted daemon accepts the environment of an already open shell.
    """
    user = iam().create_user("us-east-1", DEPLOYER)
    iam().attach_user_policy(ADMINISTRATOR, DEPLOYER)
    key = iam().create_access_key(DEPLOYER)
    key.secret_access_key = secrets.token_urlsafe(30)
    if credentials.exists():
        kept = json.loads(credentials.read_text())
        key.access_key_id, key.secret_access_key = kept["access_key_id"], kept["secret_access_key"]
        user.access_keys[:] = [key]
        return
    credentials.touch(mode=0o600)
    content = {"access_key_id": key.access_key_id, "secret_access_key": key.secret_access_key}
    credentials.write_text(json.dumps(content) + "\n")


def find_key(access_key_id: str) -> AccessKey | None:
    """Return the active user key or the session key (expired or not) with this id, or None."""
    for user in list(iam().users.values()):
        for key in list(user.access_keys):
            if key.access_key_id == access_key_id and key.status == "Active":
                return AccessKey(key.secret_access_key, Principal(user.arn, user.arn, "User", user.name, user.id))
    return _sessions.find(access_key_id)


def policies_of(principal: Principal) -> tuple[list[str], str | None]:
    """Return the JSON of a caller's own policies and of its permissions boundary."""
    boundary = None
    if principal.is_anonymous:
        return [], None
    if not principal.is_role:
        user = iam().users.get(principal.name)
        holders = [user, *iam().get_groups_for_user(principal.name)] if user else []
    else:
        role = find_role(principal.issuer)
        holders = [role] if role else []
        arn = role.permissions_boundary_arn if role else None
        boundary = _document(iam().managed_policies[arn]) if arn else None
    inline = [text for holder in holders for text in list(holder.policies.values())]
    managed = [_document(policy) for holder in holders for policy in list(holder.managed_policies.values())]
    return inline + managed, boundary


def _document(policy: ManagedPolicy) -> str:
    return next(version.document for version in policy.versions if version.is_default)


def tags_of(principal: Principal) -> dict[str, str]:
    """Return the tags of the user or role (``aws:PrincipalTag``)."""
    tags = iam().tagger.get_tag_dict_for_resource(principal.issuer)
    role = find_role(principal.issuer) if principal.is_role else None
    return tags | ({tag["Key"]: tag["Value"] for tag in role.tags} if role else {})


def boundary_of(role: str) -> str | None:
    """Return the ARN of the permissions boundary of the role with this name, or None."""
    found = next((each for each in list(iam().get_roles()) if each.name == role), None)
    return found.permissions_boundary_arn if found else None


def key_tags(arn: str, region: str) -> dict[str, str]:
    return kms_backends[ACCOUNT][region].tagger.get_tag_dict_for_resource(arn.rpartition("/")[2])


def find_role(arn: str) -> Role | None:
    return next((role for role in list(iam().get_roles()) if role.arn == arn), None)


def has_bucket(name: str) -> bool:
    return name in s3_backends[ACCOUNT]["aws"].buckets


def bucket_of(resource: str) -> FakeBucket | None:
    """Return the bucket that an ARN of S3 names or whose object it names, or None."""
    root, is_s3, name = resource.partition("arn:aws:s3:::")
    return s3_backends[ACCOUNT]["aws"].buckets.get(name.partition("/")[0]) if is_s3 and not root else None


def bucket_policy(bucket: str) -> str | None:
    """Return the JSON of a bucket's policy, or None."""
    found = s3_backends[ACCOUNT]["aws"].buckets.get(bucket)
    policy = found.policy if found else None
    return policy.decode() if isinstance(policy, bytes) else policy


def bucket_key(bucket: str) -> str | None:
    """Return the ARN of the customer key that a bucket encrypts with by default, or None."""
    found = s3_backends[ACCOUNT]["aws"].buckets.get(bucket)
    rule = ((found and found.encryption) or {}).get("Rule") or {}
    key = rule.get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID")
    return key if key and key.startswith("arn:") else None


class _Sessions:
    """Role sessions by access key. moto keeps them in a list, which each call would search."""

    def __init__(self) -> None:
        self._keys: dict[str, AccessKey] = {}
        self._seen = 0
        self._lock = threading.Lock()

    def find(self, access_key_id: str) -> AccessKey | None:
        assumed = sts_backends[ACCOUNT]["aws"].assumed_roles
        with self._lock:
            while access_key_id not in self._keys and self._seen < len(assumed):
                session = assumed[self._seen]
                self._keys[session.access_key_id] = _session_key(session)
                self._seen += 1
            return self._keys.get(access_key_id)


_sessions = _Sessions()


def _session_key(session: AssumedRole) -> AccessKey:
    name = session.role_arn.split("/")[-1]
    principal = Principal(session.arn, session.role_arn, "AssumedRole", name, session.user_id, session.policy or None)
    return AccessKey(session.secret_access_key, principal, session.session_token, _aware(session.expiration))


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def role_credentials(
    role_arn: str, session_name: str, service: str | None = None, seconds: int = 21600
) -> dict[str, str]:
    """Create credentials of a role session, as AWS does for the tasks and instances that it starts.

    Args:
        role_arn: The role.
        session_name: The name of the session, cut to 64 characters.
        service: The service that assumes the role, such as ``ecs-tasks.amazonaws.com``. The role's trust policy must
            allow it. None skips this check.
        seconds: How long the credentials are valid: six hours, as for tasks
            (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html).

    Returns:
        AccessKeyId, SecretAccessKey, Token and Expiration (ISO 8601, UTC).

    Raises:
        RoleRefusedError: The role does not exist, or its trust policy does not allow the service.
    """
    with moto.lock:
        role = find_role(role_arn)
        if role is None:
            raise RoleRefusedError(f"the role {role_arn} does not exist")
        if service is not None and (why := trust_refusal(role, service)):
            raise RoleRefusedError(f"{service} is not authorized to perform: sts:AssumeRole on {role_arn} {why}")
        session = sts_backends[ACCOUNT]["aws"].assume_role("us-east-1", session_name[:64], role_arn, "", seconds, "")
    return {
        "AccessKeyId": session.access_key_id,
        "SecretAccessKey": session.secret_access_key,
        "Token": session.session_token,
        "Expiration": _aware(session.expiration).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def trust_refusal(role: Role, service: str) -> str | None:
    """Say why a role's trust policy excludes a service, or None. Every service but EC2 names the account it acts for.

    Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html (aws:SourceAccount).
    """
    context = {} if service == "ec2.amazonaws.com" else {"aws:sourceaccount": ACCOUNT}
    query = Query("sts:AssumeRole", role.arn, {f"Service:{service}": DIRECT}, context)
    return refusal(query, [], parse(role.assume_role_policy_document), resource_decides=True)


@lru_cache(maxsize=64)
def _client(name: str, region: str) -> Any:
    client = _boto_session.client(
        name,
        region_name=region,
        endpoint_url="http://127.0.0.1",
        aws_access_key_id="AWS",
        aws_secret_access_key="itself",
        config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
    )
    client.meta.events.register_first("before-send", _send_in_process)
    return client


_boto_session = boto3.Session()


def service_client(name: str, region: str) -> Any:
    """A boto3 client that calls moto in this process as AWS itself, without a signature or an authorization check."""
    with moto.lock:
        return _client(name, region)


def _send_in_process(request: Any, **_: Any) -> AWSResponse:
    body = request.body or b""
    data = body if isinstance(body, bytes | str) else body.read()
    headers = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
    environ = create_environ(base_url=None, path=request.url, method=request.method, headers=headers, data=data)
    content, status, answered = run_wsgi_app(moto, environ)
    return AWSResponse(request.url, int(status.split()[0]), dict(answered), MockRawResponse(b"".join(content)))
