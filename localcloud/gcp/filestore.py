"""Filestore: an address for each instance, and the sizes and deletions that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError


def folder(state: Path, address: str, share: str) -> Path:
    """The folder that represents a share. That of an instance that was not made here is empty at first."""
    found = state / "filestore" / address / share.strip("/")
    found.mkdir(parents=True, exist_ok=True)
    return found


class Filestore(Plugin):
    """The plug-in: what the generic server cannot know about instances."""

    apis = ("file",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._made = 0

    def handle(self, request: Request) -> Response | None:
        """Check a change, and give a new instance its address."""
        if not request.call.id.startswith("file.projects.locations.instances."):
            return None
        name = self._site.full_name("file", request.call.name)
        old = self._site.resources.get(name) or {}
        verb = request.call.method.verb
        if verb == "patch":
            _check_size(old, request.call.body or {})
        if verb == "delete" and old.get("deletionProtectionEnabled"):
            raise RestError(400, f"{name} is protected from deletion.", "FAILED_PRECONDITION")
        answer = self._site.default(request)
        if verb == "create":
            self._made += 1
            place = f"{name}/{request.call.params['instanceId']}"
            if place not in self._site.resources.names("file/"):
                place = f"{name}/instances/{request.call.params['instanceId']}"
            self._site.resources.change(place, self._placed)
        return answer

    def _placed(self, stored: dict[str, Any]) -> None:
        for network in stored.get("networks", []):
            network |= {"ipAddresses": [f"172.30.{self._made}.2"], "reservedIpRange": f"172.30.{self._made}.0/29"}
        stored["state"] = "READY"


def _check_size(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Source: https://cloud.google.com/filestore/docs/scale"""
    before, after = (int(each.get("fileShares", [{}])[0].get("capacityGb", 0)) for each in (old, new))
    if after and after < before and old.get("tier", "").startswith("BASIC"):
        raise RestError(400, f"Capacity of a {old['tier']} instance cannot be decreased from {before}.")
