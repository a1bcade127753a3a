"""Work of jobs: images, file systems, time limits, and what starts on their machines.

Startup scripts are secret as a whole: only names of images and file systems, and numbers of settings, are told.
"""

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

from ops.review.compute import QUEUE, TEMPLATES
from ops.review.diffs import at
from ops.review.document import Step
from ops.review.models import Finding, Severity
from ops.review.values import is_unknown, number, objects

_DEFINITION = "aws:batch/jobDefinition:JobDefinition"
_LAUNCH = "aws:ec2/launchTemplate:LaunchTemplate"
_RECONCILES = "gcp:cloudscheduler/job:Job"
_SCHEDULE = "aws:scheduler/schedule:Schedule"
_SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
_SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
_LESS: tuple[tuple[str, str, float | None, Severity, str], ...] = (
    (_DEFINITION, "retryStrategy.attempts", 1, "medium", "tries reclaimed jobs less often: {new:g} times, was {old:g}"),
    (
        _SUBSCRIPTION, "deadLetterPolicy.maxDeliveryAttempts", None, "high",
        "puts work aside sooner: after {new:g} deliveries, was {old:g}",
    ),
    (
        _SUBSCRIPTION, "ackDeadlineSeconds", 10, "medium",
        "delivers work again after {new:g} s, was {old:g}: what takes longer runs twice",
    ),
    (
        QUEUE, "jobStateTimeLimitActions.maxTimeSeconds", None, "medium",
        "cancels jobs that wait for a machine sooner: after {new:g} s, was {old:g}",
    ),
)  # fmt: skip
"""Numbers that people feel when they fall: type, path, the cloud's default, severity and title.

Sources: https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html,
https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions
"""
_EVERY = re.compile(r"\*(?:/(\d+))? \* \* \* \*")
_LOGINS = ("enable-oslogin", "block-project-ssh-keys")
"""Metadata that keeps a project's SSH keys off machines.

Source: https://cloud.google.com/compute/docs/connect/restrict-ssh-keys#block-project-keys
"""
_IMAGE = re.compile(r"(?<![\w./:-])((?:[\w.-]+(?::\d+)?/)+)[\w.-]+(?:@(sha256:[0-9a-f]{64})|:[\w][\w.-]*)")
"""An image with its tag or digest: the registry and path that it is in, and the digest."""
_SHARE = re.compile(r"\bfs-[0-9a-f]{8,17}\b")
_NFS = re.compile(r"device=:(/[^\s,\"']*).*?addr=([\d.]+)(?:[^\"]*,(ro|rw)\b)?")
_SECONDS = re.compile(r"^(\w+_SECONDS|\w+_MINUTES)=(\d+)$", re.MULTILINE)


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `work`, about resources that stay."""
    queues_go = any(step.type == QUEUE and step.op == "delete" for step in steps)
    told: set[tuple[str, tuple[str, ...]]] = set()
    for step in steps:
        if step.type == _DEFINITION and step.op == "delete" and not queues_go:
            title = "a job definition goes: jobs that name its image are refused, and waiting ones fail"
            yield _finding("medium", step, title)
        if _paused(step.new) and not _paused(step.old) and step.type in (_RECONCILES, _SCHEDULE):
            yield _finding("high", step, f"no longer runs: it is paused, so {_rests(step)}")
        if step.op not in ("update", "replace") or not step.old or not step.new:
            continue
        yield from _less(step)
        if step.type == _RECONCILES and not _sends(step):
            yield from _rarer(step)
        if (
            step.type == _SUBNETWORK
            and step.old.get("privateIpGoogleAccess")
            and not step.new.get("privateIpGoogleAccess")
        ):
            yield _finding("medium", step, "machines without public addresses no longer reach Google's services")
        if step.type in (_DEFINITION, _LAUNCH, *TEMPLATES):
            for finding in _of_step(step):
                if (key := (finding.title, finding.details)) not in told:
                    told.add(key)
                    yield finding


def _paused(inputs: dict[str, Any]) -> bool:
    return inputs.get("paused") is True or inputs.get("state") == "DISABLED"


def _sends(step: Step) -> bool:
    """True for what calls the sender."""
    return "Sender$" in step.urn


def _rests(step: Step) -> str:
    return "no template is sent" if _sends(step) else "machines that are dead stay and are billed"


def _less(step: Step) -> Iterator[Finding]:
    """Numbers of `_LESS` that fall; of a list, its smallest."""
    for kind, path, default, severity, title in _LESS:
        if step.type == kind:
            old, new = (_smallest(side, path, default) for side in (step.old, step.new))
            if old is not None and new is not None and new < old:
                yield _finding(severity, step, title.format(old=old, new=new))


def _smallest(inputs: dict[str, Any], path: str, default: float | None) -> float | None:
    key, _, inner = path.partition(".")
    value = inputs.get(key)
    held = objects(value) if isinstance(value, list) else [value]
    found = [number(each.get(inner) if inner and isinstance(each, dict) else each) for each in held]
    known = [each for each in found if each is not None]
    return min(known) if known else None if is_unknown(value) else default


def _rarer(step: Step) -> Iterator[Finding]:
    """A reconciler that looks after its machines more rarely."""
    old, new = (str(side.get("schedule")) for side in (step.old, step.new))
    every = [int(match[1] or 1) if (match := _EVERY.fullmatch(each)) else None for each in (old, new)]
    if old != new and (every[0] is None or every[1] is None):
        yield _finding(
            "high", step, f"runs by another schedule: {new}, was {old}: dead machines may stay and are billed"
        )
    elif every[0] and every[1] and every[1] > every[0]:
        yield _finding("medium", step, f"runs more rarely: every {every[1]} minutes, was {every[0]}")


def _of_step(step: Step) -> Iterator[Finding]:
    old, new = _text(step.old), _text(step.new)
    before, after = _images(old), _images(new)
    if places := sorted(after.keys() - before.keys()):
        details = [f"{', '.join(places)}, was {', '.join(sorted(before)) or 'none'}"]
        moved, known = ({*chain.from_iterable(each)} for each in ((after[place] for place in places), before.values()))
        if moved <= known - {""}:
            details.append(
                "By the same digest, so with the same content; without that registry new machines cannot start."
            )
        yield _finding("high", step, "runs an image from another place", *details)
    shares = sorted(_shares(new) - _shares(old))
    if shares:
        yield _finding("medium", step, "mounts another file system", ", ".join(shares))
    limit = [number(at(side, ("timeout", "attemptDurationSeconds"))) for side in (step.old, step.new)]
    if limit[1] is not None and (limit[0] is None or limit[1] < limit[0]):
        was = "no limit" if limit[0] is None else f"{limit[0] / 60:g} minutes"
        yield _finding("medium", step, f"ends what runs longer than {limit[1] / 60:g} minutes, was {was}")
    times = [dict(_SECONDS.findall(text)) for text in (old, new)]
    for name in sorted(times[0].keys() & times[1].keys()):
        if times[0][name] != times[1][name]:
            lines = (f"{name}: {int(times[0][name]):,} to {int(times[1][name]):,}",)
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
    metadata = [at(side, ("metadata",)) for side in (step.old, step.new)]
    sides = [{k for k in _LOGINS if isinstance(m, dict) and str(m.get(k)).upper() == "TRUE"} for m in metadata]
    if opened := sorted(sides[0] - sides[1]) if not is_unknown(metadata[1]) else []:
        yield _finding("high", step, "keys of the project may log in to its machines by SSH", *opened)
    yield from _container(step)


def _images(text: str) -> dict[str, set[str]]:
    """Places of images, each with their digests; an empty one for a tag."""
    found: dict[str, set[str]] = {}
    for place, digest in _IMAGE.findall(text):
        found.setdefault(place, set()).add(digest)
    return found


def _container(step: Step) -> Iterator[Finding]:
    """Folders of the machine, and shares of a network's file systems, that a job may write, and only read before."""
    old, new = (_mounts(inputs) for inputs in (step.old, step.new))
    opened = sorted(path for path, read_only in new.items() if not read_only and old.get(path))
    if opened:
        yield _finding("high", step, "jobs may write what they only read before", *opened)


def _mounts(inputs: dict[str, Any]) -> dict[str, bool]:
    """Folders and shares by path: true if jobs only read it."""
    shares = {f"{address}:{path}": mode == "ro" for path, address, mode in _NFS.findall(_text(inputs))}
    try:
        points = json.loads(inputs.get("containerProperties") or "{}").get("mountPoints")
    except (TypeError, ValueError):
        return shares
    return shares | {str(each.get("containerPath")): bool(each.get("readOnly")) for each in points or []}


def _shares(text: str) -> set[str]:
    return {*_SHARE.findall(text), *(f"{address}:{path}" for path, address, _ in _NFS.findall(text))}


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
