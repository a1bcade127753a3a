"""The contents of a project before any stack: owner, service agents, APIs, regions, zones and Google's own images."""

from __future__ import annotations

import json

from localcloud.gcp.project import NUMBER, PROJECT, Project

DEPLOYER = f"deployer@{PROJECT}.iam.gserviceaccount.com"
BILLING_ACCOUNT = "012345-6789AB-CDEF01"
ZONES = {"us-central1": "abcf", "us-west1": "abc", "us-east1": "bcd", "europe-west1": "bcd", "europe-west4": "abc"}
"""https://cloud.google.com/compute/docs/regions-zones"""
QUOTAS = {"CPUS": 5000.0, "PREEMPTIBLE_CPUS": 5000.0, "N2_CPUS": 5000.0, "N2D_CPUS": 5000.0, "C3_CPUS": 5000.0,
          "IN_USE_ADDRESSES": 2000.0, "INSTANCES": 6000.0, "DISKS_TOTAL_GB": 204800.0, "SSD_TOTAL_GB": 204800.0,
          "NVIDIA_T4_GPUS": 64.0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 64.0, "NVIDIA_L4_GPUS": 64.0,
          "PREEMPTIBLE_NVIDIA_L4_GPUS": 64.0}  # fmt: skip
ALWAYS = {"serviceusage", "cloudresourcemanager", "iam", "storage"}
"""APIs that work before any API is enabled; assumed."""
COMPUTE = "https://www.googleapis.com/compute/v1"
AGENTS = {"pubsub.googleapis.com": "gcp-sa-pubsub", "cloudscheduler.googleapis.com": "gcp-sa-cloudscheduler",
          "logging.googleapis.com": "gcp-sa-logging", "cloudfunctions.googleapis.com": "gcf-admin-robot",
          "artifactregistry.googleapis.com": "gcp-sa-artifactregistry", "storage.googleapis.com": "gs-project-accounts",
          "compute.googleapis.com": "compute-system", "secretmanager.googleapis.com": "gcp-sa-secretmanager",
          "run.googleapis.com": "serverless-robot-prod", "eventarc.googleapis.com": "gcp-sa-eventarc",
          "bigquery.googleapis.com": "bigquery-encryption", "iam.googleapis.com": "", "monitoring.googleapis.com": "",
          "cloudresourcemanager.googleapis.com": "", "serviceusage.googleapis.com": "", "cloudkms.googleapis.com": "",
          "cloudbuild.googleapis.com": "gcp-sa-cloudbuild", "iamcredentials.googleapis.com": "",
          "sts.googleapis.com": "", "billingbudgets.googleapis.com": "",
          "containerscanning.googleapis.com": "container-analysis", "file.googleapis.com": "cloud-filer"}  # fmt: skip
"""Service agents: https://cloud.google.com/iam/docs/service-agents"""


def agent(service: str) -> str:
    """The e-mail address of a service's agent, empty when it has none."""
    domain = AGENTS.get(service)
    if service == "storage.googleapis.com":
        return f"service-{NUMBER}@gs-project-accounts.iam.gserviceaccount.com"
    return f"service-{NUMBER}@{domain}.iam.gserviceaccount.com" if domain else ""


def fill(project: Project) -> None:
    """Put all of it into a new project, and write the deployer's credentials to its state folder."""
    put = project.resources.put
    base = f"projects/{PROJECT}"
    put(f"cloudresourcemanager/{base}", {"name": f"projects/{NUMBER}", "projectId": PROJECT, "projectNumber": NUMBER,
        "state": "ACTIVE", "lifecycleState": "ACTIVE", "displayName": PROJECT, "labels": {}})  # fmt: skip
    put(f"iam/{base}/serviceAccounts/{DEPLOYER}", {"name": f"{base}/serviceAccounts/{DEPLOYER}", "email": DEPLOYER})
    bindings = [{"role": "roles/owner", "members": [f"serviceAccount:{DEPLOYER}"]}]
    for service, role in (("pubsub", "pubsub.serviceAgent"), ("cloudscheduler", "cloudscheduler.serviceAgent")):
        member = f"serviceAccount:{agent(f'{service}.googleapis.com')}"
        bindings.append({"role": f"roles/{role}", "members": [member]})
    for service in AGENTS:
        name = f"projects/{NUMBER}/services/{service}"
        config = {"name": service, "title": service}
        on = project.options.apis == "enabled" or service.partition(".")[0] in ALWAYS
        state = "ENABLED" if on else "DISABLED"
        put(f"serviceusage/{base}/services/{service}", {"name": name, "state": state, "config": config})
    project.resources.set_policy(f"cloudresourcemanager/{base}", {"version": 1, "etag": "BwA=", "bindings": bindings})
    account = f"billingAccounts/{BILLING_ACCOUNT}"
    put(f"billingbudgets/{account}", {"name": account})
    costs = [{"role": "roles/billing.costsManager", "members": [f"serviceAccount:{DEPLOYER}"]}]
    project.resources.set_policy(f"billingbudgets/{account}", {"version": 1, "etag": "BwA=", "bindings": costs})
    put(f"compute/{base}", {"kind": "compute#project", "name": PROJECT, "id": NUMBER, "quotas": []})
    for region, letters in ZONES.items():
        at = f"{COMPUTE}/{base}"
        zones = [f"{region}-{letter}" for letter in letters]
        quotas = [{"metric": metric, "limit": limit, "usage": 0.0} for metric, limit in QUOTAS.items()]
        put(f"compute/{base}/regions/{region}", {"kind": "compute#region", "name": region, "status": "UP",
            "selfLink": f"{at}/regions/{region}", "zones": [f"{at}/zones/{zone}" for zone in zones],
            "quotas": quotas})  # fmt: skip
        for zone in zones:
            put(f"compute/{base}/zones/{zone}", {"kind": "compute#zone", "name": zone, "status": "UP",
                "region": f"{at}/regions/{region}", "selfLink": f"{at}/zones/{zone}"})  # fmt: skip
    put(f"storage/{base}/serviceAccount", {"kind": "storage#serviceAccount",
        "email_address": agent("storage.googleapis.com")})  # fmt: skip
    put(f"logging/{base}/cmekSettings", {"name": f"{base}/cmekSettings",
        "serviceAccountId": agent("logging.googleapis.com")})  # fmt: skip
    for bucket, days in (("_Default", 30), ("_Required", 400)):
        name = f"{base}/locations/global/buckets/{bucket}"
        put(f"logging/{name}", {"name": name, "retentionDays": days, "lifecycleState": "ACTIVE"})
    path = project.state / "credentials.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(project.tokens.key_file(DEPLOYER, PROJECT, project.url), indent=1))
