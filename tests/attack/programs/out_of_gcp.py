"""Ways out of an item on GCP, where a container has its machine's account; each needs one thing only.

    out_of_gcp.py WAY FOLDER FACTS

FACTS is JSON: what anyone in the team knows of the stack.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from urllib.parse import quote

import hostile

FACTS = json.loads(sys.argv[3])
METADATA = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1"
GOOGLE = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"].removesuffix("storage/")
MACHINES = ["/etc/tidemill/run.sh", "/etc/tidemill/settings", "/var/lib/tidemill/worker"]
PROJECT, BUCKET, ZONE = FACTS["project"], FACTS["bucket"], FACTS["zone"]
GROUPS = f"compute/compute/v1/projects/{PROJECT}/regions/{FACTS['region']}/instanceGroupManagers"


def metadata(path: str) -> str:
    return hostile.asked(urllib.request.Request(f"{METADATA}/{path}", headers={"Metadata-Flavor": "Google"}))


def google(method: str, path: str, body: object = None) -> str:
    """A call with the rights of the machine's account."""
    token = json.loads(metadata("instance/service-accounts/default/token").partition(" ")[2])["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    return hostile.asked(urllib.request.Request(GOOGLE + path, data, headers, method=method))


def put(key: str, bucket: str = BUCKET) -> str:
    return google("POST", f"storage/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}", "x")


def delete(key: str) -> str:
    return google("DELETE", f"storage/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}")


def get(bucket: str, key: str) -> str:
    return google("GET", f"storage/storage/v1/b/{bucket}/o/{quote(key, safe='')}?alt=media")


def publish(topic: str) -> str:
    return google("POST", f"pubsub/v1/{topic}:publish", {"messages": [{"data": "eA=="}]})


def path_out_of_the_folder() -> str:
    """An output that a fetch on the submitter's laptop would write elsewhere. Storing it is allowed."""
    put(os.environ["TIDEMILL_OUTPUT_URI"].partition("://")[2].partition("/")[2] + "../../../../owned")
    raise PermissionError("stored; a fetch refuses it")


def itself(verb: str, body: object) -> str:
    machine = metadata("instance/name").partition(" ")[2]
    return google("POST", f"compute/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/{machine}/{verb}", body)


hostile.run(
    {
        # The reconciler, and what it believes.
        "a job of its own": lambda: publish(FACTS["topic"]),
        "a job that the reconciler begins": lambda: put("fleet/held/owned.json"),
        "a job that waits for ever": lambda: delete("fleet/held/theirs.json"),
        "the reconciler's report": lambda: put("fleet/reconciler.json"),
        "the reconciler's memory": lambda: put("fleet/unserved/cpu"),
        "a machine that always stays": lambda: put("fleet/warm/cpu"),
        "the reconciler's program": lambda: put("reconciler/owned.zip"),
        "the reconciler's account": lambda: google(
            "POST",
            f"iamcredentials/v1/projects/-/serviceAccounts/{FACTS['reconciler']}:generateAccessToken",
            {"scope": ["https://www.googleapis.com/auth/cloud-platform"]},
        ),
        "the reconciler's token": lambda: metadata(f"instance/service-accounts/{FACTS['reconciler']}/token"),
        # Other jobs, teams and people.
        "what clients believe": lambda: put("pipeline.json"),
        "a file that other jobs read": lambda: put("uploads/00/x"),
        "another team's job": lambda: get(FACTS["others"], "jobs/a/job.json"),
        "another team's store": lambda: put("jobs/a/job.json", FACTS["others"]),
        "data that is only read": lambda: put("owned", FACTS["data"]),
        "a secret": lambda: google("GET", f"secretmanager/v1/projects/{PROJECT}/secrets/theirs/versions/latest:access"),
        "the store's own policy": lambda: google(
            "PUT",
            f"storage/storage/v1/b/{BUCKET}/iam",
            {"bindings": [{"role": "roles/owner", "members": ["allUsers"]}]},
        ),
        "the project": lambda: google(
            "POST",
            f"cloudresourcemanager/v3/projects/{PROJECT}:setIamPolicy",
            {"policy": {"bindings": [{"role": "roles/owner", "members": ["allUsers"]}]}},
        ),
        "the worker's repository": lambda: google(
            "DELETE",
            f"artifactregistry/v1/projects/{PROJECT}/locations/{FACTS['region']}/repositories/{FACTS['repository']}",
        ),
        "a path on the submitter's laptop": path_out_of_the_folder,
        # Machines.
        "a script that runs at the machine's start": lambda: itself(
            "setMetadata", {"items": [{"key": "startup-script", "value": "id"}]}
        ),
        "a machine of its own": lambda: google(
            "POST", f"compute/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances", {"name": "owned"}
        ),
        "a larger fleet": lambda: google("POST", f"{GROUPS}/{FACTS['group']}/resize?size=9"),
        "the end of the fleet": lambda: google("DELETE", f"{GROUPS}/{FACTS['group']}"),
        # What the machine shows its container.
        **hostile.to_the_machine(MACHINES, ["run.sh", "dockerd", "google_guest_agent"], "/run/localcloud.sock"),
    }
)
