"""Work of jobs: images, file systems, time limits, and what starts on their machines.

Startup scripts are secret as a whole: only names of images and file systems, and numbers of settings, are told.
"""

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ops.review.compute import QUEUE, TEMPLATES
from ops.review.diffs import at
from ops.review.document import Step
from ops.review.models import Finding
from ops.review.values import number

_DEFINITION = "aws:batch/jobDefinition:JobDefinition"
_LAUNCH = "aws:ec2/launchTemplate:LaunchTemplate"
_RECONCILES = "gcp:cloudscheduler/job:Job"
_IMAGE = re.compile(r"(?<![\w./:-])((?:[\w.-]+(?::\d+)?/)+)[\w.-]+(?:@sha256:[0-9a-f]{64}|:[\w][\w.-]*)")
"""An image with its tag or digest, and the registry and path that it is in."""
_SHARE = re.compile(r"\bfs-[0-9a-f]{8,17}\b")
_NFS = re.compile(r"device=:(/[^\s,\"']*).*?addr=([\d.]+)")
_SECONDS = re.compile(r"^(\w+_SECONDS|\w+_MINUTES)=(\d+)$", re.MULTILINE)


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `work`, about resources that stay."""
    queues_go = any(step.type == QUEUE and step.op == "delete" for step in steps)
    told: set[tuple[str, tuple[str, ...]]] = set()
    for step in steps:
        if step.type == _DEFINITION and step.op == "delete" and not queues_go:
            title = "a job definition goes: jobs that name its image are refused, and waiting ones fail"
            yield _finding("medium", step, title)
        if step.type == _RECONCILES and step.new.get("paused") is True and step.old.get("paused") is not True:
            yield _finding("high", step, "no longer runs: it is paused, so machines that are dead stay and are billed")
        if step.op not in ("update", "replace") or not step.old or not step.new:
            continue
        if step.type in (_DEFINITION, _LAUNCH, *TEMPLATES):
            for finding in _of_step(step):
                if (key := (finding.title, finding.details)) not in told:
                    told.add(key)
                    yield finding


def _of_step(step: Step) -> Iterator[Finding]:
    old, new = _text(step.old), _text(step.new)
    places = sorted({*_IMAGE.findall(new)} - {*_IMAGE.findall(old)})
    if places:
        was = ", ".join(sorted({*_IMAGE.findall(old)})) or "none"
        yield _finding("high", step, "runs an image from another place", f"{', '.join(places)}, was {was}")
    shares = sorted(_shares(new) - _shares(old))
    if shares:
        yield _finding("medium", step, "mounts another file system", ", ".join(shares))
    limit = [number(at(side, ("timeout", "attemptDurationSeconds"))) for side in (step.old, step.new)]
    if limit[1] is not None and (limit[0] is None or limit[1] < limit[0]):
        was = "no limit" if limit[0] is None else f"{limit[0] / 60:g} minutes"
        yield _finding("medium", step, f"ends what runs longer than {limit[1] / 60:g} minutes, was {was}")
    before, after = (dict(_SECONDS.findall(text)) for text in (old, new))
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            lines = (f"{name}: {int(before[name]):,} to {int(after[name]):,}",)
            why = "a machine is billed while it is idle" if "IDLE" in name else "a machine leaves at another age"
            yield _finding("medium", step, f"a time of its machines changes: {why}", *lines)
    script = step.type == _LAUNCH and step.old.get("userData") != step.new.get("userData")
    if script:
        yield _finding("medium", step, "the startup script of its machines changes, which runs as root: read it")
    hops = [number(at(side, ("metadataOptions", "httpPutResponseHopLimit"))) or 1 for side in (step.old, step.new)]
    if hops[1] > hops[0]:
        yield _finding(
            "high", step, f"containers can reach the machine's credentials: hop limit {hops[1]:g}, was {hops[0]:g}"
        )
    yield from _container(step)


def _container(step: Step) -> Iterator[Finding]:
    """Folders of the machine that a job may write, and only read before."""
    old, new = (_mounts(inputs) for inputs in (step.old, step.new))
    opened = sorted(path for path, read_only in new.items() if not read_only and old.get(path))
    if opened:
        yield _finding("high", step, "jobs may write what they only read before", *opened)


def _mounts(inputs: dict[str, Any]) -> dict[str, bool]:
    """Folders by path: true if jobs only read it."""
    try:
        points = json.loads(inputs.get("containerProperties") or "{}").get("mountPoints")
    except (TypeError, ValueError):
        return {}
    return {str(each.get("containerPath")): bool(each.get("readOnly")) for each in points or []}


def _shares(text: str) -> set[str]:
    return {*_SHARE.findall(text), *(f"{address}:{path}" for path, address in _NFS.findall(text))}


def _text(inputs: dict[str, Any]) -> str:
    """The text of a container's properties and of its machines' startup script."""
    parts = [str(inputs.get("containerProperties") or ""), str(at(inputs, ("metadata", "user-data")) or "")]
    with contextlib.suppress(binascii.Error, ValueError):
        parts.append(base64.b64decode(str(inputs.get("userData") or ""), validate=True).decode(errors="replace"))
    text = "\n".join(parts)
    # Files of a cloud-init document are JSON strings.
    return text.replace('\\"', '"').replace("\\n", "\n")


def _finding(severity: Any, step: Step, title: str, *details: str) -> Finding:
    return Finding(severity, "work", step.name, step.urn, title, details)
