"""The tags that the policies of an environment require of its stacks."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from components.config import ConfigError, StackConfig
from components.config.errors import key_path, missing, shown
from components.config.load import defaults
from ops import project
from ops.clouds import facts

OURS = ("tidemill:", "tidemill-")
"""Beginnings of the keys that Tidemill puts on everything by itself."""
FILL_IN = "fill-in"
"""The value of a tag in a new stack file, for a person to replace."""


@dataclass(frozen=True)
class Required:
    """The tags that an environment's policies demand."""

    keys: Sequence[str] = ()
    """Without Tidemill's own."""
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The values that some keys may have."""
    mandatory: bool = False
    """False if a stack may go without them."""

    @property
    def named(self) -> set[str]:
        """Every key that the policies name."""
        return {*self.keys, *self.values}


class _Rule(BaseModel):
    """The rule's settings in an environment's file."""

    required: list[str] = []
    allowed: dict[str, list[str]] = {}
    enforcementLevel: str = "mandatory"  # noqa: N815


def required(cloud: str, environment: str | None) -> Required:
    """The tags that an environment requires; none where its file cannot be read, which the preview reports."""
    try:
        pack = json.loads(project.policy_config(environment or "default").read_text(encoding="utf-8"))
        said = pack.get(facts(cloud).TAG_RULE, {})
        rule = _Rule.model_validate(said if isinstance(said, dict) else {"enforcementLevel": said})
    except (AttributeError, OSError, ValueError):
        return Required()
    keys = [key for key in rule.required if not key.startswith(OURS)]
    return Required(keys, rule.allowed, rule.enforcementLevel in ("mandatory", "remediate"))


def to_fill_in(cloud: str, environment: str, file: Path) -> dict[str, str]:
    """The required tags of a new stack file that its environment does not give, each with a value to replace."""
    try:
        given = defaults(file).get("tidemill:environment_tags", {}).get(environment, {}).get(cloud, {})
    except AttributeError:  # no mappings: the check of the file says so
        return {}
    wanted = required(cloud, environment)
    keys = [key for key in wanted.keys if wanted.mandatory and key not in given]
    return {key: next(iter(wanted.values.get(key, ())), FILL_IN) for key in keys}


def lacking(config: StackConfig) -> str | None:
    """An error about the first required tag that a stack lacks, or whose value its environment does not allow.

    A stack that waives the rule is left to the policies. `aws:defaultTags` do not count: machines do not get them.
    """
    wanted, rule = required(config.cloud, config.environment), facts(config.cloud).TAG_RULE
    if not wanted.mandatory or any(waiver.rule == rule for waiver in config.waivers):
        return None
    file = project.policy_config(config.environment).name
    by = f"The policies of {config.environment} demand it (policy/environments/{file})"
    where = "in this file, or for all its stacks in tidemill:environment_tags of Pulumi.yaml"
    tags = config.company_tags
    for key in wanted.keys:
        if not tags.get(key):
            meant = next((each for each in tags if each != key and _plain(each) == _plain(key)), None)
            fix = f"rename {meant}, because each character counts" if meant else f"set it {where}"
            return str(missing(key_path(["tags", key]), f"{by}: {fix}"))
    for key, values in wanted.values.items():
        if key in tags and tags[key] not in values:
            allowed, fix = " or ".join(values), f"{by}: correct it {where}"
            return str(ConfigError(key_path(["tags", key]), shown(tags[key]), allowed, fix))
    return None


def _plain(key: str) -> str:
    """A key as people confuse it with others: `cost-center` and `CostCenter` are the same."""
    return re.sub(r"[\W_]", "", key).lower()
