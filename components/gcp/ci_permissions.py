"""CI's permissions in a project: reads for previews, and writes for the resources of a stack.

Source: https://cloud.google.com/iam/docs/permissions-reference
"""

_POLICY = "getIamPolicy"
_READ = {
    "artifactregistry.repositories": f"get {_POLICY}",
    "bigquery.datasets": f"get {_POLICY}",
    "cloudfunctions.functions": "get",
    "cloudfunctions.operations": "get",
    "cloudkms.cryptoKeys": f"get {_POLICY}",
    "cloudkms.cryptoKeyVersions": "get list",
    "cloudkms.keyRings": "get",
    "cloudscheduler.jobs": "get",
    "compute.advice": "capacity",
    "compute.autoscalers": "get",
    "compute.firewalls": "get list",
    "compute.globalOperations": "get",
    "compute.images": "get getFromFamily list",
    "compute.instanceGroupManagers": "get",
    "compute.instanceTemplates": "get",
    "compute.machineTypes": "list",
    "compute.networks": "get",
    "compute.regionOperations": "get",
    "compute.regions": "get list",
    "compute.routers": "get",
    "compute.subnetworks": "get",
    "compute.zoneOperations": "get",
    "compute.zones": "get list",
    "file.instances": "get",
    "file.operations": "get",
    "iam.roles": "get",
    "iam.serviceAccounts": f"get {_POLICY}",
    "iam.workloadIdentityPoolProviders": "get",
    "iam.workloadIdentityPools": "get",
    "logging.buckets": "get",
    "logging.cmekSettings": "get",
    "logging.exclusions": "get",
    "logging.logMetrics": "get",
    "logging.queries": "getShared",
    "logging.sinks": "get",
    "monitoring.alertPolicies": "get",
    "monitoring.dashboards": "get",
    "monitoring.notificationChannels": "get",
    "pubsub.subscriptions": f"get {_POLICY}",
    "pubsub.topics": f"get {_POLICY}",
    "resourcemanager.projects": f"get {_POLICY}",
    "run.operations": "get",
    "run.services": f"get {_POLICY}",
    "secretmanager.secrets": f"get {_POLICY}",
    "serviceusage.services": "get list",
    "storage.buckets": f"get {_POLICY}",
}
"""Names, settings and policies; no message, object, log line or secret."""

_MANAGE = "create delete update"
_WRITE = {
    "artifactregistry.repositories": f"{_MANAGE} setIamPolicy",
    "bigquery.datasets": f"{_MANAGE} setIamPolicy",
    "cloudfunctions.functions": f"{_MANAGE} sourceCodeSet",
    "cloudkms.cryptoKeys": "create setIamPolicy update",
    "cloudkms.cryptoKeyVersions": "destroy",
    "cloudkms.keyRings": "create",
    "cloudscheduler.jobs": f"{_MANAGE} enable",
    "compute.autoscalers": _MANAGE,
    "compute.disks": "create",
    "compute.firewalls": _MANAGE,
    "compute.instanceGroupManagers": f"{_MANAGE} use",
    "compute.instanceTemplates": "create delete useReadOnly",
    "compute.instances": "create delete setLabels setMetadata setServiceAccount setTags",
    "compute.networks": f"{_MANAGE} updatePolicy use",
    "compute.routers": f"{_MANAGE} use",
    "compute.subnetworks": f"{_MANAGE} setPrivateIpGoogleAccess use useExternalIp",
    "file.instances": _MANAGE,
    "iam.roles": f"{_MANAGE} undelete",
    "iam.serviceAccounts": f"actAs {_MANAGE} setIamPolicy",
    "logging.buckets": _MANAGE,
    "logging.exclusions": _MANAGE,
    "logging.logMetrics": _MANAGE,
    "logging.queries": "deleteShared share updateShared",
    "logging.sinks": _MANAGE,
    "monitoring.alertPolicies": _MANAGE,
    "monitoring.dashboards": _MANAGE,
    "monitoring.notificationChannels": _MANAGE,
    "pubsub.subscriptions": f"consume {_MANAGE} setIamPolicy",
    "pubsub.topics": f"attachSubscription {_MANAGE} setIamPolicy",
    "resourcemanager.projects": "setIamPolicy",
    "run.services": f"{_MANAGE} setIamPolicy",
    "secretmanager.secrets": f"{_MANAGE} setIamPolicy",
    "storage.buckets": f"{_MANAGE} setIamPolicy",
    # The descriptor and the reconciler's source; and a store that is purged is emptied.
    "storage.objects": "create delete list",
}
"""`resourcemanager.projects.setIamPolicy` lets its holder grant anything in the project: a stack gives its machines
roles on the project, and Google has no narrower permission for that (docs/ci.md). `compute.instances`: changing a group
is assumed to require the permissions for changing its machines."""


def _named(table: dict[str, str]) -> list[str]:
    return sorted(f"{kind}.{verb}" for kind, verbs in table.items() for verb in verbs.split())


READING = _named(_READ)
"""Permissions of previews and drift checks."""
WRITING = _named(_WRITE)
"""Permissions of deploys, in addition to those of previews."""
