"""The generic server: stores, changes, lists, removes and returns resources for parsed and permitted calls."""

from __future__ import annotations

import itertools
import re
import secrets
from typing import Any

from localcloud.gcp import discovery, fields, seed
from localcloud.gcp.discovery import Call
from localcloud.gcp.project import Project
from localcloud.gcp.schema import read_only
from localcloud.gcp.wire import Request, Response, RestError, stamp

Value = dict[str, Any]
VERBS = {"insert": "create", "createAsync": "create", "update": "patch", "updateAsync": "patch", "wait": "get",
         "describe": "get", "getCmekSettings": "get"}  # fmt: skip
STATES = {"enable": "ENABLED", "resume": "ENABLED", "disable": "DISABLED", "pause": "PAUSED",
          "destroy": "DESTROY_SCHEDULED"}  # fmt: skip
"""Verbs that only change a state. A key's material goes when its destroyScheduledDuration is over."""
TERM = r"""\(?\s*(\w+)\s*(?:=|eq|:)\s*["']?([^"'()]+)["']?\s*\)?\s*"""


class Rest:
    """Answers every method whose verb it knows; any other method gets 501."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._numbers = itertools.count(1)

    def handle(self, request: Request) -> Response:
        """Answer a request whose `call` is set."""
        call: Call = request.call
        verb = VERBS.get(call.method.verb, call.method.verb)
        action = self._state if verb in STATES else getattr(self, f"do_{verb}", None)
        if action is None:
            raise RestError(501, f"localcloud does not have {call.id}.")
        with self._project.resources.lock:
            return Response.of(action(request, call, self._project.full_name(request.api, call.name)))

    def do_get(self, request: Request, call: Call, name: str) -> Value:
        return self._existing(name)

    def do_list(self, request: Request, call: Call, name: str) -> Value:
        """One page; filters compare for equality, and several in parentheses must all hold."""
        schema = call.method.document["schemas"][call.method.response]["properties"]
        key = next(key for key, spec in schema.items() if spec.get("type") == "array" and key != "unreachable")
        found = [value for _, value in self._project.resources.list(name) if not value.get("deleted")]
        if wanted := call.params.get("filter"):
            if not re.fullmatch(rf"(?:{TERM})+", wanted):
                raise RestError(400, f"localcloud does not know the filter {wanted!r}.", field="filter")
            terms = re.findall(TERM, wanted)
            found = [value for value in found if all(str(value.get(name)) == item for name, item in terms)]
        start = int(call.params.get("pageToken") or 0)
        size = int(call.params.get("maxResults") or call.params.get("pageSize") or 500) or 500
        page: Value = {key: found[start : start + size]} if found else {}
        if start + size < len(found):
            page["nextPageToken"] = str(start + size)
        return page

    def do_getFromFamily(self, request: Request, call: Call, name: str) -> Value:  # noqa: N802
        images, _, family = name.rpartition("/family/")
        found = [value for _, value in self._project.resources.list(images) if value.get("family") == family]
        if not (current := [value for value in found if "deprecated" not in value]):
            raise RestError(404, f"The resource '{name.partition('/')[2]}' was not found.")
        return max(current, key=lambda value: value["creationTimestamp"])

    def do_create(self, request: Request, call: Call, name: str) -> Value:
        value = _bare(_inner(call))
        name = fields.new_name(call, name, value, next(self._numbers))
        old = self._project.resources.get(name)
        if old:
            text = "is in a deleted state" if old.get("deleted") else "already exists"
            raise RestError(409, f"The resource '{name.partition('/')[2]}' {text}.")
        self._project.resources.put(
            name, fields.born(self._project, request.principal, name, value, _resource_schema(call))
        )
        if call.id.endswith(".cryptoKeys.create") and call.params.get("skipInitialVersionCreation") != "true":
            version = f"{name}/cryptoKeyVersions/1"
            self._project.resources.put(version, {"name": version.partition("/")[2], "state": "ENABLED"})
        return self.answer(call, name, "insert")

    def do_patch(self, request: Request, call: Call, name: str) -> Value:
        """PATCH by mask (or, without one, of the given fields), and PUT of everything that is not output only."""
        self._existing(name)
        value, schema = _inner(call), _resource_schema(call)
        mask = call.params.get("updateMask") or (call.body or {}).get("updateMask") or ""
        given = [_camel(part) for part in mask.split(",") if part]
        whole = call.method.spec["httpMethod"] == "PUT" or given == ["*"]

        def change(stored: Value) -> None:
            if whole:
                for key in [key for key in stored if key in schema and not read_only(schema[key]) and key != "name"]:
                    if key not in ("kind", "selfLink", "id", "etag", "fingerprint"):
                        del stored[key]
            paths = [] if whole else given
            _merge(stored, {key: item for key, item in value.items() if key != "name"}, paths)
            fields.changed(self._project, call, name, stored, schema)

        self._project.resources.change(name, change)
        return self.answer(call, name, "patch")

    def do_delete(self, request: Request, call: Call, name: str) -> Value:
        value = self._existing(name)
        if request.api == "compute":
            self._refuse_if_used(name)
        if request.api == "iam" and "/roles/" in name:  # it is kept for a time, and its name stays taken
            self._project.resources.change(name, lambda role: role.update(deleted=True))
            return {**value, "deleted": True}
        answer = self.answer(call, name, "delete")
        self._project.resources.delete(name)
        return answer

    def do_undelete(self, request: Request, call: Call, name: str) -> Value:
        if not self._existing(name).pop("deleted", False):
            raise RestError(400, f"The resource '{name.partition('/')[2]}' is not deleted.", "FAILED_PRECONDITION")
        self._project.resources.change(name, lambda value: value.pop("deleted"))
        return self._existing(name)

    def do_getIamPolicy(self, request: Request, call: Call, name: str) -> Value:  # noqa: N802
        self._existing(name)
        return self._project.resources.policy(name)

    def do_setIamPolicy(self, request: Request, call: Call, name: str) -> Value:  # noqa: N802
        """Replace the policy; an outdated etag is refused, as is a condition without version 3."""
        self._existing(name)
        policy = _bare((call.body or {}).get("policy", call.body) or {})
        if policy.get("etag") and policy["etag"] != self._project.resources.policy(name)["etag"]:
            raise RestError(
                409, "There were concurrent policy changes. Please retry the whole read-modify-write.", "ABORTED"
            )
        self._project.policy.check_policy(policy)
        conditional = any("condition" in binding for binding in policy.get("bindings", []))
        if conditional and policy.get("version") != 3:
            raise RestError(400, "A policy with conditions must have version 3.", field="policy.version")
        bindings = [binding for binding in policy.get("bindings", []) if binding.get("members")]
        stored = {"version": 3 if conditional else 1, "etag": secrets.token_urlsafe(8), "bindings": bindings}
        self._project.resources.set_policy(name, stored)
        return stored

    def do_testIamPermissions(self, request: Request, call: Call, name: str) -> Value:  # noqa: N802
        asked = (call.body or call.params).get("permissions", [])
        held = [one for one in asked if self._project.policy.allows(request.principal, one, name)]
        return {"permissions": held} if held else {}

    def do_generateServiceIdentity(self, request: Request, call: Call, name: str) -> Value:  # noqa: N802
        """The service's agent, which exists from the beginning."""
        service = name.rpartition("/")[2]
        email = seed.agent(service)
        if not email:
            raise RestError(400, f"Service {service} has no identity.")
        operation = {"name": f"operations/identity-{next(self._numbers)}", "done": True}
        return {**operation, "response": {"email": email, "uniqueId": str(next(self._numbers))}}

    def _state(self, request: Request, call: Call, name: str) -> Value:
        self._existing(name)
        self._project.resources.change(name, lambda value: value.update(state=STATES[call.method.verb]))
        return self.answer(call, name, "update")

    def _existing(self, name: str) -> Value:
        value = self._project.resources.get(name)
        if value is None:
            raise RestError(404, f"The resource '{name.partition('/')[2]}' was not found.")
        return value

    def _refuse_if_used(self, name: str) -> None:
        """Refuse to delete a Compute resource that another one names."""
        link = fields.link(name)
        for other in self._project.resources.names("compute/"):
            value = self._project.resources.get(other) or {}
            if other != name and not value.get("operationType") and _names(value, link):
                text = f"The resource '{name.partition('/')[2]}' is already being used by '{other.partition('/')[2]}'"
                raise RestError(400, text, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE")

    def answer(self, call: Call, name: str, what: str) -> Value:
        """The resource itself, nothing, or the finished operation, depending on the method."""
        value = self._existing(name)
        if call.method.response == "Operation" or call.method.response.endswith("LongrunningOperation"):
            number = f"{next(self._numbers)}{secrets.randbelow(10**6):06d}"
            return self._operation(call, name, what, value, number)
        return {} if what == "delete" and call.method.response in ("", "Empty") else value

    def _operation(self, call: Call, name: str, what: str, value: Value, number: str) -> Value:
        api, *parts = name.split("/")
        now = stamp(self._project.clock.now())
        if api == "compute":
            scope = parts[2:3] if parts[2] == "global" else parts[2:4]
            at = "/".join([api, *parts[:2], *scope, "operations", f"operation-{number}"])
            where = {scope[0].rstrip("s"): fields.link("/".join([api, *parts[:2], *scope]))} if len(scope) == 2 else {}
            answer = {"kind": "compute#operation", "id": number, "name": f"operation-{number}", "status": "DONE",
                      "operationType": what, "progress": 100, "targetLink": fields.link(name), "insertTime": now,
                      "endTime": now, "selfLink": fields.link(at), **where}  # fmt: skip
        else:
            scope = parts[: parts.index("locations") + 2] if "locations" in parts else []
            local = "/".join([*scope, "operations", number])
            at = f"{api}/{local}"
            kind = discovery.resource_of(call.method)
            body = {} if what == "delete" else {"@type": f"type.googleapis.com/{kind}", **value}
            answer = {"name": local, "done": True, "response": body}
        self._project.resources.put(at, answer)
        return answer


def _resource_schema(call: Call) -> Value:
    return call.method.document["schemas"].get(discovery.resource_of(call.method), {}).get("properties", {})


def _inner(call: Call) -> Value:
    """The resource in a body, which may be a request around it."""
    key, body = discovery.inner_key(call.method), call.body or {}
    return dict(body.get(key) or {}) if key else dict(body)


def _merge(stored: Value, value: Value, mask: list[str]) -> None:
    """Put given values into the stored ones: the paths of a mask; without a mask, objects merge and null removes."""
    for path in mask:
        head, _, rest = path.partition(".")
        if rest:
            _merge(stored.setdefault(head, {}), value.get(head) or {}, [rest])
        elif value.get(head) is None:
            stored.pop(head, None)
        else:
            stored[head] = _bare(value[head])
    for key, item in {} if mask else value.items():
        if item is None:
            stored.pop(key, None)
        elif isinstance(item, dict) and isinstance(stored.get(key), dict):
            _merge(stored[key], item, [])
        else:
            stored[key] = _bare(item)


def _bare(value: Any) -> Any:
    """A value without nulls, which mean the same as absence (https://protobuf.dev/programming-guides/json)."""
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if item is not None}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _camel(path: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), path.strip())


def _names(value: Any, link: str) -> bool:
    if isinstance(value, dict):
        return any(_names(item, link) for item in value.values())
    if isinstance(value, list):
        return any(_names(item, link) for item in value)
    return value == link
