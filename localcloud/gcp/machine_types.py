"""Compute's machine types of a zone: any that a filter names, but for types with GPUs, which few zones have.

Where they are is made up, but as thin as in the list of Google: https://cloud.google.com/compute/docs/gpus/gpu-regions-zones
"""

from __future__ import annotations

import re

from localcloud.gcp.advice import TYPE
from localcloud.gcp.site import Plugin
from localcloud.gcp.wire import Request, Response, RestError

NAMED = re.compile(r'\(?name = "([^"]+)"\)?')
WITH_GPUS = re.compile(r"a\d-.*")
ZONES = ("us-central1-a", "us-central1-c", "europe-west4-b")


class MachineTypes(Plugin):
    apis = ("compute",)

    def handle(self, request: Request) -> Response | None:
        """Answer `machineTypes.list` with a filter that names types."""
        call = request.call
        if call.id != "compute.machineTypes.list":
            return None
        wanted = [NAMED.fullmatch(part) for part in (call.params.get("filter") or "").split(" OR ")]
        if not all(wanted):
            raise RestError(400, 'localcloud lists the machine types that a filter names: (name = "x") OR ...')
        zone, names = call.params["zone"], [match[1] for match in wanted if match]
        sold = [name for name in names if zone in ZONES or not WITH_GPUS.fullmatch(name)]
        items = [{"name": name, "guestCpus": _size(name)} for name in sold]
        return Response.of({"kind": "compute#machineTypeList", "items": items})


def _size(name: str) -> int:
    """The number of a type's name, which is not that of the vCPUs for types with GPUs."""
    match = TYPE.fullmatch(name.removesuffix("-lssd"))
    return int(match["size"]) if match else 0
