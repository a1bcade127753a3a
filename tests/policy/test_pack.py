"""The pack as a whole, without an engine: tests/engine shows that it stops a preview."""

import re
from pathlib import Path

from pulumi_policy import EnforcementLevel

from policy.rules import POLICIES

RULES = Path(__file__).parents[2] / "policy" / "rules"
HELPERS = {"__init__", "companions", "documents", "values"}


def test_every_rule_file_is_in_the_pack_under_its_own_name():
    files = {path.stem for path in RULES.glob("*.py")} - HELPERS
    assert {policy.name.replace("-", "_") for policy in POLICIES} == files


def test_every_rule_is_mandatory_named_by_cloud_service_resource_and_described():
    for policy in POLICIES:
        assert policy.enforcement_level is EnforcementLevel.MANDATORY
        assert re.fullmatch(r"(aws|gcp)(-[a-z0-9]+){3,}", policy.name)
        assert policy.description.endswith(".")
