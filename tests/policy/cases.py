"""The tables of cases/: for each rule, resources that pass, ones that fail and why, and ones not known yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pulumi_policy import PolicyResource, ResourceValidationPolicy
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from policy.rules import POLICIES
from policy.rules.common.rule import KINDS
from tests.policy.conftest import make
from tests.policy.judging import Found, judge

FOLDER = Path(__file__).parent / "cases"
RULES = {policy.name: policy for policy in POLICIES}


class _Loader(yaml.CSafeLoader):
    """YAML with `!unknown` for what only `up` will know."""


_Loader.add_constructor("!unknown", lambda loader, node: UNKNOWN_STRING_VALUE)


@dataclass(frozen=True)
class Case:
    """One stack and the expected result of a rule."""

    rule: str
    section: str
    content: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.rule}-{self.section}-{self.content.get('of') or self.content.get('says') or ''}"[:90]

    @property
    def says(self) -> list[str]:
        """A part of each message, in order."""
        said = self.content.get("says", [])
        return [said] if isinstance(said, str) else said

    def found(self) -> list[Found]:
        """The rule's findings, judged alone."""
        pack: dict[str, Any] = dict.fromkeys(RULES, "disabled")
        pack[self.rule] = {"enforcementLevel": "mandatory"} | self.content.get("parameters", {})
        return judge(self._resources(), self.content.get("config", {}), pack)

    def _resources(self) -> list[PolicyResource]:
        if isinstance(RULES[self.rule], ResourceValidationPolicy):
            kind = self.content.get("kind") or KINDS[self.rule][0]
            name = self.content.get("name", "thing")
            return [make(kind, name, self.content.get("props", {}), protect=self.content.get("protect", False))]
        made = [make(one["kind"], one["name"], one.get("props", {})) for one in self.content["resources"]]
        by_name = {resource.name: resource for resource in made}
        for resource, one in zip(made, self.content["resources"], strict=True):
            for key, names in one.get("from", {}).items():
                sources = [names] if isinstance(names, str) else names
                resource.property_dependencies[key] = [by_name[name] for name in sources]
        return made


def table(rule: str) -> dict[str, Any]:
    """The sections of a rule's table; empty where it has tests in Python instead."""
    path = FOLDER / f"{rule.replace('-', '_')}.yaml"
    return yaml.load(path.read_text(), _Loader) if path.exists() else {}


CASES = [
    Case(rule, section, case) for rule in sorted(RULES) for section, cases in table(rule).items() for case in cases
]
