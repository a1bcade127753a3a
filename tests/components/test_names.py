"""Names and types of resources from earlier versions: the engine knows a resource only by them.

A resource that is renamed, or gets another type or parent, is created anew and the old one is deleted, unless it has an
alias (docs/upgrading.md). The engine implements aliases; tests/engine/test_upgrade.py previews them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest

from tests.components.recording import Recorder, run
from tests.components.stacks import run_program
from tests.engine.export_fixture import RETIRED, settings, states, text


def made(recorder: Recorder) -> set[str]:
    """Type chain and name of everything that a program makes, under its current name and each of its aliases."""
    names = set()
    for resource in recorder.resources:
        *parents, kind = resource.chain
        for type_, name in [(kind, resource.name), *resource.options["aliases"]]:
            names.add(f"{'$'.join([*parents, type_])}::{name}")
    return names


def known(state: Path) -> set[str]:
    """The same for a state, without the stack itself, providers and resources that were only read."""
    resources = json.loads(text(state))["deployment"]["resources"]
    urns = [resource["urn"].split("::", 2)[2] for resource in resources if not resource.get("external")]
    return {urn for urn in urns if not urn.startswith("pulumi:")}


@pytest.mark.parametrize("state", states(), ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_everything_that_an_earlier_version_made_is_still_made_under_its_name(state):
    before = known(state)
    assert len(before) >= 47
    missing = before - made(run_program(settings(state)))
    assert [name for name in sorted(missing) if not name.endswith(RETIRED)] == [], (
        "give what was renamed an alias: docs/upgrading.md"
    )


def test_an_alias_counts_as_the_old_name():
    def program() -> None:
        aliases: list[pulumi.Alias | str] = [pulumi.Alias(name="old")]
        pulumi.ComponentResource("tidemill:index:Pipeline", "new", None, pulumi.ResourceOptions(aliases=aliases))

    assert made(run(program)) == {"tidemill:index:Pipeline::new", "tidemill:index:Pipeline::old"}
