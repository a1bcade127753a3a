"""The permission that a method requires, and the resource it applies to.

The rule is `<service>.<resource>.<verb>` from the method's id; the tables list where Google's names differ. Source:
https://cloud.google.com/iam/docs/permissions-reference and the reference page of each method, read through
https://github.com/iann0036/iam-dataset (gcp/map.json of August 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from localcloud.gcp.discovery import Call

SERVICES = {"billingbudgets": "billing", "cloudresourcemanager": "resourcemanager"}
VERBS = {"insert": "create", "createAsync": "create", "patch": "update", "updateAsync": "update", "put": "update",
         "aggregatedList": "list", "batchGet": "get", "batchEnable": "enable", "wait": "get"}  # fmt: skip
SCOPES = {"projects", "locations", "global", "zones", "regions", "v1"}
EXCEPTIONS = {
    "pubsub.subscriptions.pull": "pubsub.subscriptions.consume",
    "pubsub.subscriptions.acknowledge": "pubsub.subscriptions.consume",
    "pubsub.subscriptions.modifyAckDeadline": "pubsub.subscriptions.consume",
    "pubsub.subscriptions.seek": "pubsub.subscriptions.consume",
    "pubsub.subscriptions.modifyPushConfig": "pubsub.subscriptions.update",
    "logging.entries.tail": "logging.logEntries.list",
    "artifactregistry.dockerImages.get": "artifactregistry.dockerimages.get",
    "artifactregistry.dockerImages.list": "artifactregistry.dockerimages.list",
    "cloudscheduler.jobs.resume": "cloudscheduler.jobs.enable",
    "compute.instanceGroupManagers.listManagedInstances": "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.listErrors": "compute.instanceGroupManagers.get",
    "cloudkms.cryptoKeys.encrypt": "cloudkms.cryptoKeyVersions.useToEncrypt",
    "cloudkms.cryptoKeys.decrypt": "cloudkms.cryptoKeyVersions.useToDecrypt",
    "secretmanager.secrets.addVersion": "secretmanager.versions.add",
    "iam.keys.create": "iam.serviceAccountKeys.create",
    "logging.savedQueries.create": "logging.queries.share",
    "logging.savedQueries.get": "logging.queries.getShared",
    "logging.savedQueries.list": "logging.queries.listShared",
    "logging.savedQueries.patch": "logging.queries.updateShared",
    "logging.savedQueries.delete": "logging.queries.deleteShared",
    "storage.serviceAccount.get": "resourcemanager.projects.get",
    "storage.notifications.insert": "storage.buckets.update",
    "storage.notifications.delete": "storage.buckets.update",
    "storage.notifications.get": "storage.buckets.get",
    "storage.notifications.list": "storage.buckets.get",
    **{f"iam.providers.{verb}": f"iam.workloadIdentityPoolProviders.{VERBS.get(verb, verb)}"
       for verb in ("create", "delete", "get", "list", "patch", "undelete")},
    "iamcredentials.serviceAccounts.generateAccessToken": "iam.serviceAccounts.getAccessToken",
    "iamcredentials.serviceAccounts.generateIdToken": "iam.serviceAccounts.getOpenIdToken",
}  # fmt: skip
GROUP_UPDATES = re.compile(r"compute\.instanceGroupManagers\.(\w+Instances|resize|set\w+)")
"""All of these require `compute.instanceGroupManagers.update`, deleteInstances included."""
ALSO = {"compute.autoscalers.update": ["compute.autoscalers.get"]}
RUNNING = {"instanceTemplates", "regionInstanceTemplates", "functions", "jobs", "services"}
LOGGING = {"metrics": "logMetrics"}
PUBLIC = {"testIamPermissions", "queryTestablePermissions"}
"""Verbs open to every caller: https://cloud.google.com/iam/docs/testing-permissions"""
WITHIN = {"logging.entries.list", "logging.entries.write"}
"""The plug-in checks these, for each resource that the body names."""
ON_PARENT = {"list", "create", "insert", "createAsync", "aggregatedList"}


def permission(call: Call) -> str:
    """The permission that a call requires, empty if all callers may make it."""
    service, *parts, verb = call.id.split(".")
    if verb in PUBLIC or call.id in WITHIN:
        return ""
    kind = next((part for part in reversed(parts) if part not in SCOPES), parts[-1] if parts else "projects")
    if service == "compute" and not kind.endswith("Operations"):
        kind = re.sub(r"^(region|global)(?=[A-Z])", "", kind)
        kind = kind[:1].lower() + kind[1:]
    kind = LOGGING.get(kind, kind) if service == "logging" else kind
    plain = f"{service}.{kind}.{verb}"
    if plain not in EXCEPTIONS and GROUP_UPDATES.fullmatch(plain):
        return "compute.instanceGroupManagers.update"
    return EXCEPTIONS.get(plain) or f"{SERVICES.get(service, service)}.{kind}.{VERBS.get(verb, verb)}"


def permissions(call: Call) -> list[str]:
    """All permissions that a call requires on its resource."""
    first = permission(call)
    return [first, *ALSO.get(first, ())] if first else []


def acting(call: Call) -> set[str]:
    """The accounts as which something will run after a call has created or changed it.

    Source: https://cloud.google.com/iam/docs/service-accounts-actas
    """
    kind = call.id.split(".")[-2]
    if kind not in RUNNING or VERBS.get(call.method.verb, call.method.verb) not in ("create", "update"):
        return set()
    return {name.rpartition("/")[2] for name in _accounts(call.body)}


def _accounts(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _accounts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _accounts(item, key)
    elif isinstance(value, str) and key in ("email", "serviceAccountEmail", "serviceAccount"):
        yield value


def resource(call: Call, full_name: str) -> str:
    """The resource of the permission: the resource itself or, for lists and creations, what contains it."""
    if call.method.verb not in ON_PARENT:
        return full_name
    size = 2 if call.method.spec["httpMethod"] == "PUT" else 1
    return "/".join(full_name.split("/")[:-size])
