"""The tables of docs/policies.md: ``python -m policy.reference`` regenerates them from the rules."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pulumi_policy import EnforcementLevel, Policy

from policy.rules import POLICIES

PAGE = Path(__file__).parents[1] / "docs" / "policies.md"
ENVIRONMENTS = Path(__file__).parent / "environments"
_COLUMNS = ("dev", "prod")
_BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def rules() -> str:
    """One row per rule: name, severity, default level and level in two environments, description."""
    configs = [_config(name) for name in _COLUMNS]
    head = ["rule", "severity", "by itself", *_COLUMNS, "what holds"]
    rows = [
        [
            f"`{policy.name}`",
            policy.severity.value if policy.severity else "",
            _level(policy),
            *(_level(policy, config.get(policy.name)) for config in configs),
            policy.description.rstrip("."),
        ]
        for policy in POLICIES
    ]
    return _table(head, rows)


def parameters() -> str:
    """One row per parameter: rule, name, default, value in two environments, description."""
    configs = [_config(name) for name in _COLUMNS]
    rows = [
        [
            f"`{policy.name}`",
            f"`{name}`",
            _shown(schema["default"]),
            *(_shown(_set(config.get(policy.name), name, schema["default"])) for config in configs),
            schema["description"].rstrip("."),
        ]
        for policy in POLICIES
        for name, schema in (policy.config_schema.properties.items() if policy.config_schema else ())
    ]
    return _table(["rule", "parameter", "by itself", *_COLUMNS, "what it is"], rows)


def text(page: str) -> str:
    made = {"rules": rules, "parameters": parameters}
    return _BLOCK.sub(lambda match: f"{match[1]}{made[match[2]]()}{match[3]}", page)


def _config(environment: str) -> Mapping[str, Any]:
    return json.loads((ENVIRONMENTS / f"{environment}.json").read_text(encoding="utf-8"))


def _level(policy: Policy, setting: Any = None) -> str:
    own = (policy.enforcement_level or EnforcementLevel.MANDATORY).value
    return (setting.get("enforcementLevel") if isinstance(setting, dict) else setting) or own


def _set(setting: Any, name: str, default: Any) -> Any:
    return setting.get(name, default) if isinstance(setting, dict) else default


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    PAGE.write_text(text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
