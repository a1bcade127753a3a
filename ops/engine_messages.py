"""The engine's messages for people: violated policies, and what to do about protected resources."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ops.project import HOMES

_PROTECTED = re.compile(r'resource "(urn:pulumi:[^"]+)"[^"]*protect', re.DOTALL)
_ABSENT = re.compile(r"no stack named '?([\w./-]+)'? found")
_REPLACEABLE = (
    "aws:batch/computeEnvironment:ComputeEnvironment",
    "aws:batch/jobQueue:JobQueue",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "gcp:compute/subnetwork:Subnetwork",
)
"""Types whose protection `tidemill:allow: [replace]` lifts."""
_REPOSITORY = "aws:ecr/repository:Repository"
_NOISE = re.compile(r"warning: (\x1b\[[\d;]*m)*using pulumi-\S+ from \$PATH at ")
"""On a terminal the engine colors the word."""
_MANDATORY = ("mandatory", "remediate")


def events(path: Path) -> list[dict[str, Any]]:
    """The policy and diagnostic events of the engine's event log."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if '"policyEvent"' in line or '"diagnosticEvent"' in line]


def policies(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the policy pack, mandatory or not, in an order that does not depend on the run."""
    told = [event["policyEvent"] for event in messages if "policyEvent" in event]
    rows = [
        {
            "rule": event["policyName"],
            "level": event["enforcementLevel"],
            "severity": event.get("severity"),
            "urn": event.get("resourceUrn"),
            "message": event["message"].strip(),
        }
        for event in told
    ]
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def summary(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The summary after a preview's hundreds of lines: violations again, mandatory first, and advice."""
    rows = sorted(policies(messages), key=lambda row: row["level"] not in _MANDATORY)
    if rows:
        mandatory = sum(row["level"] in _MANDATORY for row in rows)
        yield f"Violations: {mandatory} mandatory, {len(rows) - mandatory} advisory"
    for row in rows:
        # The first line is the rule's own sentence; the violation follows it.
        message = " ".join(row["message"].split("\n", 1)[-1].split())
        name = (row["urn"] or "").split("::", 3)[-1]
        yield f"  {row['level']}  {row['rule']}  {name}: {message}"
    yield from advice(event["diagnosticEvent"]["message"] for event in messages if "diagnosticEvent" in event)


def advice(messages: Iterable[str]) -> list[str]:
    """The remedy for a stack that the backend lacks, and for each protected resource that the engine refused to
    delete or replace."""
    messages = list(messages)
    absent = [name for message in messages for name in _ABSENT.findall(message)]
    urns = [urn for message in messages for urn in _PROTECTED.findall(message)]
    return [
        *(f"The backend has no {name}: log in to the right one, or make it (docs/teams.md)." for name in absent),
        *(f"{urn.split('::', 3)[3]} is protected. {remedy(urn)}" for urn in dict.fromkeys(urns)),
    ]


def remedy(urn: str) -> str:
    """How to keep or give up a protected resource."""
    _, project, kinds, name = urn.split("::", 3)
    kind = kinds.rpartition("$")[2]
    lift = f"tidemill:allow: [{'replace' if kind in _REPLACEABLE else 'purge'}]"
    if project in {home.project.name for home in HOMES.values()}:
        lift = f"{project}:{'purge_replica' if name.startswith('tidemill-replica-') else 'purge'} to true"
    give_up = f"set {lift} and run `pulumi up` before the change that removes it"
    if kind == _REPOSITORY:
        repository = name.partition("-registry-")[2] or name
        return (
            f"To keep it and its images, add {repository} to tidemill:registry.repositories; to delete both, {give_up}."
        )
    return f"To give it up, {give_up}."


def without_noise(text: str) -> str:
    """The engine's messages without those about the location of its plugins."""
    return "".join(line for line in text.splitlines(keepends=True) if not _NOISE.search(line))
