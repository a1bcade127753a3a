"""Whether a caller may do something: evaluates the policies that the stack created and counts every call."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.aws import accounts, efs, public
from localcloud.aws.accounts import ACCOUNT, Principal
from localcloud.aws.errors import AwsError
from localcloud.aws.iam import ACCOUNT as BY_ACCOUNT
from localcloud.aws.iam import DIRECT, ROLE, Context, PolicyError, Query, parse, refusal

ANOTHER = "999999999999"
"""The account of buckets that are of another one."""
ALWAYS_ALLOWED = {"sts:GetCallerIdentity"}
"""https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html"""

_lock = threading.Lock()
_calls: Counter[tuple[str, str, bool]] = Counter()
_denied: deque[dict[str, str]] = deque(maxlen=10_000)


def authorize(principal: Principal, action: str, resource: str, context: Context | None = None) -> None:
    """Allow a call or refuse it.

    Args:
        principal: The caller.
        action: An IAM action such as ``logs:PutLogEvents``.
        resource: An ARN, or ``*``.
        context: Condition keys of this call, in any case. This function adds those that describe the caller.

    Raises:
        AwsError: AccessDenied, with the message that AWS gives.
    """
    why = why_refused(principal, action, resource, context)
    with _lock:
        _calls[principal.name, action, why is None] += 1
        if why:
            _denied.append({"principal": principal.name, "action": action, "resource": resource, "why": why})
    if why:
        sentence = f"User: {principal.arn} is not authorized to perform: {action} on resource: {resource} {why}"
        raise AwsError("AccessDenied", sentence)


def why_refused(principal: Principal, action: str, resource: str, context: Context | None = None) -> str | None:
    """Return the reason for a refusal, or None. This does not count the call."""
    if action in ALWAYS_ALLOWED:
        return None
    own, boundary = accounts.policies_of(principal)
    guard = _resource_policy(action, resource)
    given = {key.lower(): value for key, value in (context or {}).items()}
    known = _about(principal) | ({"aws:resourceaccount": ANOTHER} if public.is_foreign(resource) else {})
    query = Query(action, resource, _names(principal), known | given, excepted=not principal.is_anonymous)
    if principal.is_anonymous and public.is_closed(resource) and not public.admits(action, resource):
        return f"because no public access to {resource} is open"
    try:
        why = refusal(
            query,
            map(parse, own),
            parse(guard) if guard else None,
            boundary=parse(boundary) if boundary else None,
            session=parse(principal.session_policy) if principal.session_policy else None,
            resource_decides=action.startswith("sts:"),
            foreign=public.is_foreign(resource),
        )
    except (PolicyError, ValueError, KeyError) as error:
        return f"because a policy cannot be evaluated: {error}"
    by_acl = why and "explicit deny" not in why and principal.is_anonymous and public.admits(action, resource)
    return None if by_acl else why


def may(role_arn: str, action: str, resource: str, region: str, context: Context | None = None) -> bool:
    """Whether a session of a role may do something that AWS does on the role's behalf, such as writing logs."""
    principal = Principal(role_arn, role_arn, "AssumedRole", role_arn.rpartition("/")[2], "AROA:localcloud")
    try:
        authorize(principal, action, resource, {"aws:requestedregion": region, **(context or {})})
    except AwsError:
        return False
    return True


def calls(_: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How often each caller requested each action, and whether it was allowed."""
    with _lock:
        counted = sorted(_calls.items())
    return [{"principal": who, "action": what, "allowed": ok, "count": n} for (who, what, ok), n in counted]


def denied(_: Mapping[str, Any]) -> list[dict[str, str]]:
    """The most recent refusals, oldest first."""
    with _lock:
        return list(_denied)


def _resource_policy(action: str, resource: str) -> str | None:
    """Return the policy of a bucket or, for its clients, of a file system, or a role's trust policy.

    Policies of keys, secrets and registries are not evaluated.
    """
    if action.startswith(efs.CLIENT):
        return efs.policy(resource)
    if resource.startswith("arn:aws:s3:::"):
        return accounts.bucket_policy(resource.removeprefix("arn:aws:s3:::").partition("/")[0])
    role = accounts.find_role(resource) if action.startswith("sts:") else None
    return role.assume_role_policy_document if role else None


def _names(principal: Principal) -> dict[str, int]:
    if principal.is_anonymous:
        return {}
    account = {f"AWS:{ACCOUNT}": BY_ACCOUNT, f"AWS:arn:aws:iam::{ACCOUNT}:root": BY_ACCOUNT}
    return account | {f"AWS:{principal.arn}": DIRECT} | ({f"AWS:{principal.issuer}": ROLE} if principal.is_role else {})


def _about(principal: Principal) -> dict[str, str | list[str]]:
    """Condition keys: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html"""
    context: dict[str, str | list[str]] = {
        "aws:principalarn": principal.issuer,
        "aws:principalaccount": ACCOUNT,
        "aws:principaltype": principal.kind,
        "aws:principalisawsservice": "false",
        "aws:userid": principal.user_id,
        "aws:resourceaccount": ACCOUNT,
        "aws:viaawsservice": "false",
        "aws:securetransport": "true",
        "aws:currenttime": datetime.now(UTC).isoformat(),
        "aws:epochtime": str(int(time.time())),
    }
    if principal.is_anonymous:
        return {key: value for key, value in context.items() if key not in {"aws:principalarn", "aws:principalaccount"}}
    if not principal.is_role:
        context["aws:username"] = principal.name
    return context | {f"aws:principaltag/{key.lower()}": value for key, value in accounts.tags_of(principal).items()}
