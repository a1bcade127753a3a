"""Fields that Google fills in: the names, links, times and identities of a new or changed resource."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from localcloud.gcp.discovery import Call
from localcloud.gcp.project import Project
from localcloud.gcp.wire import RestError, stamp

Value = dict[str, Any]
SHORT = re.compile(r"compute/|storage/|bigquery/|logging/.*/(sinks|metrics|exclusions)/")
"""Resources whose `name` is only the last part."""
LINK = re.compile(
    r"(?:https://[\w.]+/compute/v1/)?(projects/[\w.:-]+/(?:global|regions/[\w-]+|zones/[\w-]+)(?:/[\w-]+)*)"
)


def link(name: str) -> str:
    """The self link for a full name of Compute."""
    return f"https://www.googleapis.com/compute/v1/{name.removeprefix('compute/')}"


def new_name(call: Call, collection: str, value: Value, number: int) -> str:
    """The full name of the resource that a method creates: from the path, a parameter such as `topicId`, or the body.

    Raises:
        RestError: 400: the request has no name.
    """
    if call.method.spec["httpMethod"] == "PUT":
        return collection
    body = call.body or {}
    keys = [key for key in call.params if key.endswith("Id") and key not in ("requestId", "projectId")]
    own = call.params.get(keys[0]) if keys else body.get("roleId") or value.get("name")
    if "accountId" in body:
        own = f"{body['accountId']}@{collection.split('/')[2]}.iam.gserviceaccount.com"
    reference = next((part for key, part in value.items() if key.endswith("Reference")), {})
    own = own or reference.get("datasetId") or reference.get("tableId")
    if not own and collection.startswith(("monitoring/", "billingbudgets/")):
        own = str(10**15 + number)
    if not own and collection.endswith("/notificationConfigs"):
        own = str(number)
    if not own:
        raise RestError(400, "Required field 'name' is missing.", field="name")
    if collection == "storage/projects/_/buckets" or "/" not in own:
        return f"{collection}/{own}"
    if f"{collection.partition('/')[2]}/" != own[: own.rindex("/") + 1]:
        raise RestError(400, f"The name {own!r} does not lie in {collection.partition('/')[2]}.", field="name")
    return f"{collection}/{own.rpartition('/')[2]}"


def linked(value: Any) -> Any:
    """Compute answers every reference as a full link, in whatever form it was written."""
    if isinstance(value, dict):
        return {key: linked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [linked(item) for item in value]
    match = LINK.fullmatch(value) if isinstance(value, str) else None
    return f"https://www.googleapis.com/compute/v1/{match[1]}" if match else value


def born(project: Project, principal: str, name: str, value: Value, schema: Value) -> Value:
    """A new resource with the fields that Google adds, as far as its schema has them. The principal is its creator."""
    api, local = name.split("/", 1)
    last = local.rpartition("/")[2]
    number = str(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16))
    now = _now(project)
    added: Value = {"name": last if SHORT.match(name) else local, "createTime": now, "creationTimestamp": now,
                    "timeCreated": now, "kind": schema.get("kind", {}).get("default"), "id": number, "uid": number,
                    "uniqueId": number, "state": _state(schema)}  # fmt: skip
    if api == "compute":
        value, added["selfLink"] = linked(value), link(name)
        parts = local.split("/")
        if parts[2] in ("regions", "zones"):
            added[parts[2][:-1]] = link("/".join(["compute", *parts[:4]]))
    special = next((rule for pattern, rule in SPECIAL.items() if re.search(pattern, name)), None)
    stored = {**value, **{key: item for key, item in added.items() if key in schema and item is not None}}
    if special:
        stored |= special(project, last, stored)
    if re.search(DATASET, name):
        stored.setdefault("access", _access(principal))
    return _stamped(project, stored, schema)


def changed(project: Project, call: Call, name: str, stored: Value, schema: Value) -> None:
    """Update the fields of a changed resource in place."""
    if name.startswith("compute/"):
        stored.update(linked(stored))
    _stamped(project, stored, schema)


def _stamped(project: Project, stored: Value, schema: Value) -> Value:
    content = json.dumps({k: v for k, v in stored.items() if k not in ("etag", "fingerprint")}, sort_keys=True)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()[:8]).decode()
    stored.update({key: digest for key in ("etag", "fingerprint") if key in schema})
    stored.update({key: _now(project) for key in ("updateTime", "updated") if key in schema})
    return stored


def _now(project: Project) -> str:
    return stamp(project.clock.now())


def _state(schema: Value) -> str | None:
    known = schema.get("state", {}).get("enum", [])
    return next((state for state in ("ACTIVE", "READY", "ENABLED") if state in known), None)


def _account(project: Project, last: str, value: Value) -> Value:
    return {"email": last, "projectId": project.project, "oauth2ClientId": value["uniqueId"]}


def _bucket(project: Project, last: str, value: Value) -> Value:
    location = value.get("location", "US").upper()
    kind = "multi-region" if location in ("US", "EU", "ASIA") else "region"
    return {"id": last, "projectNumber": project.number, "location": location, "locationType": kind,
            "metageneration": "1", "storageClass": value.get("storageClass", "STANDARD"),
            "selfLink": f"https://www.googleapis.com/storage/v1/b/{last}"}  # fmt: skip


def _notification(project: Project, last: str, value: Value) -> Value:
    return {"id": last}


def _sink(project: Project, last: str, value: Value) -> Value:
    return {"writerIdentity": f"serviceAccount:service-{project.number}@gcp-sa-logging.iam.gserviceaccount.com"}


def _function(project: Project, last: str, value: Value) -> Value:
    config = value.get("serviceConfig", {})
    location = value["name"].split("/")[3]
    service = f"projects/{project.project}/locations/{location}/services/{last}"
    uri = f"{project.url}/functions/{location}/{last}"
    project.resources.put(f"run/{service}", {"name": service, "uri": uri})
    return {"url": uri, "serviceConfig": {**config, "uri": uri, "service": service}}


def _repository(project: Project, last: str, value: Value) -> Value:
    mode = value.get("mode", "STANDARD_REPOSITORY")
    return {"mode": mode, "registryUri": f"{value['name'].split('/')[3]}-docker.pkg.dev/{project.project}/{last}"}


def _dataset(project: Project, last: str, value: Value) -> Value:
    return {"id": f"{project.project}:{last}", "datasetReference": {"datasetId": last, "projectId": project.project}}


def _access(principal: str) -> list[Value]:
    """The access list of a dataset whose creator gives none.

    Source: https://cloud.google.com/bigquery/docs/reference/rest/v2/datasets (`access[]`)
    """
    groups = {"READER": "projectReaders", "WRITER": "projectWriters", "OWNER": "projectOwners"}
    found = [{"role": role, "specialGroup": group} for role, group in groups.items()]
    return [*found, {"role": "OWNER", "userByEmail": principal.partition(":")[2]}]


def _image(project: Project, last: str, value: Value) -> Value:
    return {"status": "READY", "diskSizeGb": value.get("diskSizeGb", "10")}


def _role(project: Project, last: str, value: Value) -> Value:
    return {"stage": value.get("stage", "ALPHA")}


DATASET = r"^bigquery/.*/datasets/[^/]+$"
SPECIAL = {
    r"^iam/.*/serviceAccounts/": _account,
    r"^iam/.*/roles/": _role,
    r"^storage/projects/_/buckets/[^/]+$": _bucket,
    r"^storage/.*/notificationConfigs/": _notification,
    r"^logging/.*/sinks/": _sink,
    r"^cloudfunctions/.*/functions/": _function,
    r"^artifactregistry/.*/repositories/[^/]+$": _repository,
    r"^compute/.*/global/images/": _image,
    DATASET: _dataset,
}
