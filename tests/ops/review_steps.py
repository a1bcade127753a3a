"""Small hand-made previews for tests of the review; tests/ops/previews has the recorded ones."""

from __future__ import annotations

import datetime
import json
from typing import Any

from ops.review.build import build
from ops.review.document import parse
from ops.review.models import Finding, Review, StackReview
from tests.ops.make_previews import TablePrices

TODAY = datetime.date(2026, 11, 21)


def urn(kind: str, name: str, stack: str = "vision-dev") -> str:
    """The URN of a resource."""
    return f"urn:pulumi:{stack}::tidemill::{kind}::{name}"


def step(
    op: str,
    kind: str,
    name: str = "it",
    *,
    old: dict[str, Any] | None = None,
    new: dict[str, Any] | None = None,
    diff: dict[str, str] | None = None,
    protect: tuple[bool, bool] = (False, False),
    needs: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """A step as the engine writes it.

    Args:
        op: What the engine would do.
        kind: Type of the resource.
        name: Its logical name.
        old: Inputs before; None where it was not there.
        new: Inputs after; None where it goes away.
        diff: Path to kind of difference; the reasons of a replacement are those that end in `-replace`.
        protect: Whether it was, and is, protected.
        needs: URNs that a property comes from.
    """
    found: dict[str, Any] = {"op": op, "urn": urn(kind, name)}
    for key, inputs, kept in (("oldState", old, protect[0]), ("newState", new, protect[1])):
        if inputs is not None:
            found[key] = {"inputs": inputs, "protect": kept, "propertyDependencies": needs or {}}
    if diff:
        found["detailedDiff"] = {path: {"kind": each} for path, each in diff.items()}
        found["replaceReasons"] = [path for path, each in diff.items() if each.endswith("-replace")]
    return found


def document(*steps: dict[str, Any], **other: Any) -> dict[str, Any]:
    """A preview document."""
    found: dict[str, Any] = {
        "version": 1,
        "stack": "vision-dev",
        "cloud": "aws",
        "region": "us-west-2",
        "environment": "dev",
        "config": {},
        "preview": {"steps": list(steps), "diagnostics": []},
        "policies": [],
        "waivers": [],
        "errors": [],
        "exit_code": 0,
    }
    return {**found, **other}


def reviewed(*steps: dict[str, Any], **other: Any) -> Review:
    """The review of one preview."""
    return build([parse(json.dumps(document(*steps, **other)), "preview.json")], TODAY, TablePrices())


def stack(*steps: dict[str, Any], **other: Any) -> StackReview:
    """The review of its one stack."""
    return reviewed(*steps, **other).stacks[0]


def told(*steps: dict[str, Any], kind: str = "", **other: Any) -> list[Finding]:
    """Its findings, of one kind where that is given."""
    return [finding for finding in stack(*steps, **other).findings if kind in ("", finding.kind)]


def statement(effect: str = "Allow", **parts: Any) -> str:
    """A policy document of one statement."""
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": effect, **parts}]})
