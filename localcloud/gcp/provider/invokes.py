"""The functions (invokes) that our programs call."""

from __future__ import annotations

from functools import partial
from typing import Any

from localcloud.provider.invokes import look_up

from .calls import Calls


def _client(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    """The client configuration without its token, which an output would keep."""
    place = {"project": calls.project, "region": calls.region, "zone": "", "accessToken": "", "defaultLabels": {}}
    return {"id": f"projects/{calls.project}/regions/{calls.region}/zones/", **place}


def _project(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    name = args.get("projectId") or calls.project
    found = calls.request("cloudresourcemanager", "GET", f"v1/projects/{name}")
    answer = {"id": f"projects/{name}", "projectId": name, "number": found["projectNumber"]}
    return {**answer, "name": found.get("name", ""), "labels": found.get("labels", {}), "effectiveLabels": {}}


def _storage_agent(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    name = args.get("project") or calls.project
    email = calls.request("storage", "GET", f"storage/v1/projects/{name}/serviceAccount")["email_address"]
    return {"id": email, "project": name, "emailAddress": email, "member": f"serviceAccount:{email}"}


def _bucket(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    """A bucket, with the keys that our programs read."""
    found = calls.request("storage", "GET", f"storage/v1/b/{args['name']}")
    return {"id": found["name"], "name": found["name"], "projectNumber": int(found["projectNumber"])}


def _log_agent(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    """The account that encrypts log buckets.

    Source: https://cloud.google.com/logging/docs/reference/v2/rest/v2/projects/getCmekSettings
    """
    found = calls.request("logging", "GET", f"v2/projects/{args['project']}/cmekSettings")
    return {"id": found["name"], "project": args["project"], "kmsKeyName": "", "kmsKeyVersionName": "", **found}


def _zones(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    project, region = args.get("project") or calls.project, args.get("region") or calls.region
    found = calls.request("compute", "GET", f"compute/v1/projects/{project}/zones").get("items", [])
    names = sorted(zone["name"] for zone in found if zone["region"].endswith(f"/{region}"))
    return {"id": f"projects/{project}/regions/{region}", "project": project, "region": region, "names": names}


def _machine_types(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    """The machine types of a zone, with the keys that our programs read."""
    project, zone = args.get("project") or calls.project, args["zone"]
    place = f"compute/v1/projects/{project}/zones/{zone}/machineTypes"
    found = calls.request("compute", "GET", place, {"filter": args.get("filter", "")}).get("items", [])
    types = [{"name": each["name"], "guestCpus": each["guestCpus"]} for each in found]
    return {"id": place, "project": project, "zone": zone, "filter": args.get("filter"), "machineTypes": types}


def _subnetwork(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    name = f"projects/{args['project']}/regions/{args['region']}/subnetworks/{args['name']}"
    return {"id": name, **calls.request("compute", "GET", f"compute/v1/{name}")}


def _image(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    """A machine image. Source: data_source_google_compute_image.go of hashicorp/terraform-provider-google."""
    images = f"projects/{args.get('project') or calls.project}/global/images"
    if "filter" in args:
        found = calls.request("compute", "GET", f"compute/v1/{images}", {"filter": args["filter"]}).get("items", [])
        if len(found) != 1:
            raise RuntimeError("your filter has returned more than one image or no image.")
    else:
        name = args["name"] if "name" in args else f"family/{args['family']}"
        found = [calls.request("compute", "GET", f"compute/v1/{images}/{name}")]
    image = {"family": "", **found[0], "diskSizeGb": int(found[0]["diskSizeGb"])}
    return {**image, "id": f"{images}/{image['name']}", "project": images.split("/")[1]}


def _file_system(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    name = f"projects/{calls.project}/locations/{args['location']}/instances/{args['name']}"
    return {"id": name, **calls.request("file", "GET", f"v1/{name}")}


def _account(args: dict[str, Any], calls: Calls) -> dict[str, Any]:
    """A service account by its short id."""
    email = f"{args['accountId']}@{calls.project}.iam.gserviceaccount.com"
    found = calls.request("iam", "GET", f"v1/projects/{calls.project}/serviceAccounts/{email}")
    return {"id": found["name"], "accountId": args["accountId"], "member": f"serviceAccount:{email}", **found}


FUNCTIONS: dict[str, Any] = {
    "gcp:organizations/getClientConfig:getClientConfig": (_client, ()),
    "gcp:organizations/getProject:getProject": (_project, ("projectId",)),
    "gcp:storage/getProjectServiceAccount:getProjectServiceAccount": (_storage_agent, ("project",)),
    "gcp:storage/getBucket:getBucket": (_bucket, ("name",)),
    "gcp:serviceaccount/getAccount:getAccount": (_account, ("accountId",)),
    "gcp:logging/getProjectCmekSettings:getProjectCmekSettings": (_log_agent, ("project", "kmsKeyName")),
    "gcp:compute/getSubnetwork:getSubnetwork": (_subnetwork, ("project", "region", "name")),
    "gcp:compute/getImage:getImage": (_image, ("project", "name", "family", "filter")),
    "gcp:filestore/getInstance:getInstance": (_file_system, ("location", "name")),
    "gcp:compute/getZones:getZones": (_zones, ("project", "region")),
    "gcp:compute/getMachineTypes:getMachineTypes": (_machine_types, ("project", "zone", "filter")),
}
invoke = partial(look_up, FUNCTIONS)
