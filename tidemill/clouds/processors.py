"""Which processors an image is for, and whether they are those of a queue's machines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tidemill.clouds.findings import Finding
from tidemill.descriptor import Queue

NAMES = {"amd64": "x86_64", "arm64": "arm64"}
"""Processors as images name them, and as descriptors do.
Source: https://github.com/opencontainers/image-spec/blob/main/image-index.md (platform)"""
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""Media types of what a registry may have under a digest: the first two name an image for each processor."""


def wanted(cloud: str, queue: Queue) -> set[str]:
    """The processors of a queue's machines; a descriptor names only one of them."""
    from tidemill import machines

    types = (machines.find(cloud, machine.type) for machine in queue.machines)
    return {machine.architecture for machine in types if machine} or {queue.architecture}


def of_platforms(platforms: Collection[dict[str, Any]]) -> set[str]:
    """The processors of an index's platforms; what is for none, such as an attestation, is left out."""
    architectures = {str(each.get("architecture", "")) for each in platforms if each.get("os", "linux") == "linux"}
    return {NAMES.get(name, name) for name in architectures - {"", "unknown"}}


def judge(finding: Finding, ref: str, has: Collection[str] | None, wants: Collection[str]) -> Finding:
    """The finding of an image that is there, once its processors are known.

    Args:
        has: The image's; None where this login cannot see them.
        wants: Those of the queue's machines.
    """
    if not has:
        return finding
    missing = sorted(set(wants) - set(has))
    if not missing:
        return replace(finding, detail=f"{finding.detail} ({', '.join(sorted(has, reverse=True))})")
    detail = f"{ref} is for {_words(has)}, but the queue starts machines with {_words(wants)}"
    platforms = ",".join(f"linux/{name}" for name, ours in NAMES.items() if ours in {*has, *wants})
    tag = ref.partition("@")[0].rpartition("/")[2].partition(":")[0]
    target = f"{ref.partition('@')[0].rpartition('/')[0]}/{tag}:TAG"
    command = f"docker buildx build --platform {platforms} --tag {target} --push ."
    return Finding(finding.check, "fault", detail, command, owner=True)


def _words(names: Collection[str]) -> str:
    return " and ".join(sorted(names, reverse=True))
