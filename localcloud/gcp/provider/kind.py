"""The table of Google's resource types: rows, and the shapes of method inputs."""

from __future__ import annotations

import functools
import re
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from localcloud.gcp import discovery
from localcloud.gcp.schema import read_only
from localcloud.provider.table import Kind, Row, references

TEXT, ANY = {"type": "string"}, {"type": "any"}
CONDITION = {"type": "object", "properties": {"title": TEXT, "description": TEXT, "expression": TEXT}}
MEMBER = {"role": TEXT, "member": TEXT, "condition": CONDITION}
COMPUTED = ["region", "location", "project"]


class Shape:
    """A schema of a discovery document, with the attributes that `localcloud.provider.convert` needs."""

    def __init__(self, schemas: dict[str, Any], spec: dict[str, Any]) -> None:
        self._schemas = schemas
        self._spec = schemas[spec["$ref"]] if "$ref" in spec else spec
        self.name = self._spec.get("id", "")
        self.required_members: list[str] = []  # the server knows which fields a method requires
        self.metadata = {key: self._spec[key] for key in ("enum", "pattern") if key in self._spec}

    @property
    def type_name(self) -> str:
        """The type, in botocore's terms."""
        kind = self._spec.get("type", "object")
        if kind == "object":
            return "map" if "additionalProperties" in self._spec else "structure"
        if self._spec.get("format") in ("int64", "uint64"):
            return "long"
        return {"array": "list", "number": "double"}.get(kind) or kind

    @functools.cached_property
    def members(self) -> dict[str, Shape]:
        """The fields of a structure, without output-only ones."""
        found = self._spec.get("properties", {})
        made = {key: Shape(self._schemas, spec) for key, spec in found.items() if not read_only(spec)}
        if "isLive" in made:  # a lifecycle condition, which the SDK calls withState
            made["isLive"].metadata["words"] = {"live": True, "archived": False}
        return made

    @property
    def member(self) -> Shape:
        """The item shape of a list."""
        return Shape(self._schemas, self._spec["items"])

    @property
    def value(self) -> Shape:
        """The value shape of a map."""
        return Shape(self._schemas, self._spec["additionalProperties"])


class Gcp(Kind):
    """Google's types. An operation's input is `{name, query, body, wrap}`; see `calls.Calls.call`."""

    prefix = "gcp:"
    folder = Path(__file__).parent / "types"
    words = frozenset({"project", "number"})
    common = frozenset({"project"})
    tags = ("labels", "effectiveLabels")
    capital = False
    whole = True

    def shape(self, service: str, operation: str) -> Shape:
        """The input of an operation, from the method's parameters and the resource in its body."""
        parts: dict[str, Any] = {"name": TEXT}
        api = service.partition(".")[0]
        schemas = dict(discovery.documents(api)[0]["schemas"])
        if operation.endswith("Member"):
            parts |= MEMBER
        elif operation.endswith("Part"):
            parts |= {"list": TEXT, "body": {"$ref": service.partition(":")[2]}}
        elif operation == "upload":
            parts |= {"content": ANY, "source": ANY, "body": {"$ref": "Object"}}
        elif operation not in ("destroyVersions", "empty"):
            operation = "create" if operation == "createRole" else operation
            method = discovery.method(api, f"{service}.{operation}")
            schemas = method.document["schemas"]
            query = {k: v for k, v in method.spec.get("parameters", {}).items() if v["location"] == "query"}
            parts |= {"query": {"type": "object", "properties": query}}
            if method.request:
                key = discovery.inner_key(method)
                parts["body"] = {"$ref": discovery.resource_of(method) if key else method.request}
                parts["wrap"] = {"$ref": method.request}
        return Shape(schemas, {"type": "object", "properties": parts})

    def replaces(self, rule: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """`smaller_range`: a range may grow in place around the old one; any other range is a new subnetwork.

        Source: TF/compute/resource_compute_subnetwork.go, IsShrinkageIpCidr
        """
        assert rule == "smaller_range", rule
        try:
            before, after = (IPv4Network(inputs["ipCidrRange"]) for inputs in (old, new))
        except (KeyError, ValueError):
            return []
        return [] if before.subnet_of(after) else ["ipCidrRange"]

    def made(self, token: str, fields: dict[str, Any]) -> Row:
        """The row of an entry; its operations follow from `at` and `methods`, `iam` or `part`."""
        fields = dict(fields)
        at = fields.pop("at")
        keys = re.findall(r"\{(\w+)\}", at)
        fields["replace"] = [*fields.get("replace", []), *keys, "project"]
        fields["computed"] = [*fields.get("computed", []), *COMPUTED]
        fields["own"] = [*fields.get("own", []), *[key for key in keys if key != "project"]]
        fields["out"] = {**{key: f"={{{key}}}" for key in keys}, **fields.get("out", {})}
        fields.setdefault("tags_at", "labels")
        if "iam" in fields:
            self._member(fields, at)
        else:
            self._operations(fields, at, keys)
        fields.setdefault("id", f"={at}")
        fields["labels"] = "effectiveLabels" in references(fields["create"]["params"])
        fields["out"] = {key: path for key, path in fields["out"].items() if path is not None}
        return Row(token=token, kind=self, at=at, **fields)

    @staticmethod
    def _member(fields: dict[str, Any], at: str) -> None:
        fields["service"] = fields.pop("iam")
        fields.setdefault("source", "TF/tpgiamresource/resource_iam_member.go, assumed")
        params = {"name": f"={at}", "role": "$role", "member": "$member", "condition": "$condition"}
        fields |= {"create": {"op": "addMember", "params": params}, "id": f"={at}/{{role}}/{{member}}"}
        fields |= {"read": [{"op": "readMember", "params": params}]}
        fields |= {"delete": [{"op": "removeMember", "params": params}], "outputs": ["etag"]}
        fields["out"] |= {"etag": "etag", "role": "role", "member": "member"}
        fields["replace"] += ["role", "member", "condition"]
        fields["required"] = ["role", "member"]

    def _operations(self, fields: dict[str, Any], at: str, keys: list[str]) -> None:
        service = fields["service"] = fields.pop("methods")
        body = {name: f"${name}" for name in fields.pop("same", [])} | fields.pop("body", {})
        query, wrap, part = fields.pop("query", {}), fields.pop("wrap", {}), fields.pop("part", None)
        lasting = fields.pop("fixed", False)
        if lasting:
            fields["tags_at"] = "properties.labels"
        else:  # a resource that never changes is not read back
            fields["out"] = _read_back(body) | fields["out"]
        own = named = {"name": f"={at}"}
        if fields.get("id") == "name":  # the cloud names it, and its name is the id
            named = {"name": "$id"}
        if part:
            above = at.rpartition("/")[0]
            own = named = {"name": f"={above}", "list": part}
            operations = ("putPart", "putPart", "readPart", "removePart")
        else:
            operations = (_first(service, "insert", "create"), _first(service, "patch", "update"), "get", "delete")
        create, update, read, delete = operations
        create = "createRole" if service == "iam.projects.roles" else create
        given = own | ({"body": body} if body else {})
        extra = {key: value for key, value in (("query", query), ("wrap", wrap)) if value}
        fields.setdefault("create", {"op": create, "params": given | extra})
        if update and not lasting:
            again = {key: value for key, value in query.items() if key == "uniqueWriterIdentity"}
            changed = given | named | ({"query": again} if again else {})
            fields.setdefault("update", [{"op": update, "params": changed}])
        fields.setdefault("read", [{"op": read, "params": named if not part else given}])
        if _exists(service, delete) or part:
            fields.setdefault("delete", [{"op": delete, "params": named if not part else given}])
        if "autoname" not in fields and keys and keys[-1] == "name":
            fields["autoname"] = {"property": "name", "max": 63, "lower": True}
        elif not fields.get("autoname"):
            fields.pop("autoname", None)


def _read_back(body: dict[str, Any], above: str = "") -> dict[str, str]:
    """The places in the answer of properties that a body takes unchanged."""
    found: dict[str, str] = {}
    for key, value in body.items():
        if isinstance(value, dict):
            found |= _read_back(value, f"{above}{key}.")
        elif value.startswith("$") and "." not in value and value != "$effectiveLabels":
            found[value[1:]] = above + key
    return found


def _exists(service: str, operation: str) -> bool:
    try:
        return discovery.method(service.partition(".")[0], f"{service}.{operation}") is not None
    except StopIteration:
        return False


def _first(service: str, *operations: str) -> str:
    return next((operation for operation in operations if _exists(service, operation)), "")


GCP = Gcp()
