"""Permission checks: evaluates the bindings that the stack made, at every call, and counts the checks.

A binding grants a permission on its resource or on what contains it (bucket, repository, project), through a
role's permissions and, if the binding has one, its condition. Everything else is denied, including the unknown.
There are no groups, domains, folders or deny policies.
Sources: https://cloud.google.com/iam/docs/resource-hierarchy-access-control, https://cloud.google.com/iam/docs/conditions-overview
"""

from __future__ import annotations

import functools
import threading
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from localcloud.gcp.clock import Clock
from localcloud.gcp.condition import ConditionError, compiled
from localcloud.gcp.resources import Resources
from localcloud.gcp.wire import RestError

Attributes = Mapping[str, str]
TYPES = {"topics": "Topic", "subscriptions": "Subscription", "buckets": "Bucket", "objects": "Object",
         "secrets": "Secret", "versions": "SecretVersion", "projects": "Project"}  # fmt: skip
"""Resource types in conditions: https://cloud.google.com/iam/docs/conditions-resource-attributes"""
EVERYTHING = "*"
BASIC = {"Owner": "roles/owner", "Editor": "roles/editor", "Viewer": "roles/viewer"}
EVERYBODY = ("allUsers", "allAuthenticatedUsers")


@functools.cache
def roles() -> dict[str, frozenset[str]]:
    """The permissions of the predefined roles (`roles.yaml`)."""
    table = yaml.load((Path(__file__).parent / "roles.yaml").read_text(), yaml.CSafeLoader)
    return {name: frozenset(permissions) for name, permissions in table.items()}


class Policy:
    """The permission check of one cloud.

    Args:
        resources: Source of the policies and the custom roles.
        project: Id of the project, which is the top of the hierarchy.
    """

    def __init__(self, resources: Resources, project: str, clock: Clock) -> None:
        self._resources, self._project, self._clock = resources, project, clock
        self._calls: Counter[tuple[str, str, bool]] = Counter()
        self._denied: deque[dict[str, str]] = deque(maxlen=10_000)
        self._lock = threading.Lock()

    def allows(self, principal: str, permission: str, resource: str, attributes: Attributes | None = None) -> bool:
        """Whether a principal has a permission; the check is not counted.

        Args:
            principal: Such as `serviceAccount:worker@p.iam.gserviceaccount.com`.
            permission: Such as `pubsub.subscriptions.consume`.
            resource: A full name as in `localcloud.gcp.resources`; the project itself is `project`.
            attributes: For `api.getAttribute` in conditions, such as `storage.googleapis.com/objectListPrefix`.
        """
        members = {principal, *EVERYBODY, *self._as_basic(principal)} if principal else {"allUsers"}
        for level in self._levels(resource):
            for binding in self._resources.bindings(level):
                if members.isdisjoint(binding.get("members", [])):
                    continue
                granted = self.permissions(binding["role"])
                if (permission in granted or EVERYTHING in granted) and self._holds(binding, resource, attributes):
                    return True
        return False

    def _as_basic(self, principal: str) -> set[str]:
        """The members such as `projectOwner:p` that a principal is by a basic role on the project."""
        top = self._resources.bindings(f"cloudresourcemanager/projects/{self._project}")
        held = {binding["role"] for binding in top if principal in binding.get("members", [])}
        return {f"project{word}:{self._project}" for word, role in BASIC.items() if role in held}

    def check(self, principal: str, permission: str, resource: str, attributes: Attributes | None = None) -> None:
        """Let a call pass or refuse it, and count the check.

        Raises:
            RestError: 403 that names the permission and the resource; 401 without a principal.
        """
        allowed = self.allows(principal, permission, resource, attributes)
        with self._lock:
            self._calls[principal, permission, allowed] += 1
            if not allowed:
                self._denied.append({"principal": principal, "permission": permission, "resource": resource})
        if allowed:
            return
        if not principal:
            raise RestError(
                401, "Request is missing required authentication credential. Expected OAuth 2 access token."
            )
        raise RestError(403, f"Permission '{permission}' denied on resource '{resource}' (or it may not exist).")

    def permissions(self, role: str) -> frozenset[str]:
        """The permissions of a predefined or custom role; none for one that does not exist."""
        if role.startswith("roles/"):
            return roles().get(role, frozenset())
        custom = self._resources.get(f"iam/{role}") or {}
        off = custom.get("deleted") or custom.get("stage") == "DISABLED"
        return frozenset() if off else frozenset(custom.get("includedPermissions", []))

    def check_policy(self, policy: dict[str, Any]) -> None:
        """Refuse a policy that cannot be evaluated.

        Raises:
            RestError: 400: a role, a member or a condition is unknown.
        """
        for index, binding in enumerate(policy.get("bindings", [])):
            role, at = binding.get("role", ""), f"policy.bindings[{index}]"
            known = role in roles() if role.startswith("roles/") else bool(self._resources.get(f"iam/{role}"))
            if not known:
                raise RestError(400, f"Role {role} is not supported for this resource.", field=f"{at}.role")
            for member in binding.get("members", []):
                self._check_member(member, f"{at}.members")
            if "condition" in binding:
                # https://cloud.google.com/iam/docs/conditions-overview#limitations
                if role in BASIC.values() or not set(EVERYBODY).isdisjoint(binding.get("members", [])):
                    raise RestError(
                        400, "Conditions can't be set on basic roles or for everybody.", field=f"{at}.condition"
                    )
                try:
                    compiled(binding["condition"].get("expression", ""))
                except ConditionError as error:
                    raise RestError(400, f"Condition expression: {error}", field=f"{at}.condition") from None

    def _check_member(self, member: str, field: str) -> None:
        kind, _, name = member.partition(":")
        if member in EVERYBODY:
            return
        if kind not in ("user", "serviceAccount", "group", "domain", "projectOwner", "projectEditor", "projectViewer",
                        "principal", "principalSet"):  # fmt: skip
            raise RestError(400, f"Invalid member {member!r}.", field=field)
        own = kind == "serviceAccount" and name.endswith(f"@{self._project}.iam.gserviceaccount.com")
        if own and not self._resources.get(f"iam/projects/{self._project}/serviceAccounts/{name}"):
            raise RestError(400, f"Service account {name} does not exist.", field=field)

    def _levels(self, resource: str) -> list[str]:
        """The resource and everything above it with a policy of its own; the project comes last."""
        api, *parts = resource.split("/")
        if "objects" in parts:  # objects have no policy, and their names contain slashes
            parts = parts[: parts.index("objects")]
        if parts[:1] == ["billingAccounts"]:  # it pays for projects but is not inside one
            return ["/".join([api, *parts[:size]]) for size in range(len(parts), 1, -1)]
        levels = ["/".join([api, *parts[:size]]) for size in range(len(parts), 2, -1)]
        return [*levels, f"cloudresourcemanager/projects/{self._project}"]

    def _holds(self, binding: dict[str, Any], resource: str, attributes: Attributes | None) -> bool:
        if "condition" not in binding:
            return True
        api, _, name = resource.partition("/")
        kind = "objects" if "/objects/" in name else ["", *name.split("/")][-2]
        values = {
            "resource.name": name,
            "resource.type": f"{api}.googleapis.com/{TYPES.get(kind, '')}",
            "resource.service": f"{api}.googleapis.com",
            "request.time": self._clock.now(),
            "api": attributes or {},
        }
        return bool(compiled(binding["condition"]["expression"])(values))

    def calls(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """How often each principal needed each permission, and whether it was granted."""
        with self._lock:
            counted = sorted(self._calls.items())
        return [{"principal": who, "permission": what, "allowed": ok, "count": n} for (who, what, ok), n in counted]

    def denied(self, _: Mapping[str, Any]) -> list[dict[str, str]]:
        """The most recent refusals, oldest first."""
        with self._lock:
            return list(self._denied)
