"""The pack as a whole, without an engine: tests/engine shows that it stops a preview."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from pulumi_policy import EnforcementLevel, StackValidationPolicy

from policy import reference
from policy.judging import level_of, parameters_of
from policy.rules import POLICIES
from policy.rules.common.rule import KINDS
from tests.policy.judging import ENVIRONMENTS

RULES = Path(__file__).parents[2] / "policy" / "rules"
BY_NAME = {policy.name: policy for policy in POLICIES}
LEVELS = [level.value for level in EnforcementLevel]
FILES = sorted(path.stem for path in ENVIRONMENTS.glob("*.json"))


def test_every_rule_file_is_in_the_pack_under_its_own_name():
    files = {path.stem for path in RULES.glob("*.py")} - {"__init__"}
    assert {name.replace("-", "_") for name in BY_NAME} == files
    assert len(POLICIES) == len(BY_NAME) >= 30


def test_every_rule_is_named_by_cloud_service_resource_and_described_and_graded():
    for policy in POLICIES:
        assert re.fullmatch(r"(any|aws|gcp)(-[a-z0-9]+){3,}", policy.name)
        assert policy.description.endswith(".")
        assert policy.severity is not None
        assert KINDS[policy.name]


def test_a_rule_holds_unless_it_only_tells():
    advisory = {policy.name for policy in POLICIES if policy.enforcement_level is EnforcementLevel.ADVISORY}
    assert advisory == {
        "any-tidemill-waiver-used",
        "aws-batch-compute-environment-price-known",
        "aws-cloudwatch-metric-alarm-exists",
        "gcp-compute-autoscaler-price-known",
        "gcp-monitoring-alert-policy-exists",
    }
    assert {policy.enforcement_level for policy in POLICIES} == {EnforcementLevel.MANDATORY, EnforcementLevel.ADVISORY}


def test_what_counts_the_others_findings_runs_last():
    stack_rules = [policy.name for policy in POLICIES if isinstance(policy, StackValidationPolicy)]
    assert stack_rules[-1] == "any-tidemill-waiver-used"


def test_every_parameter_has_a_sentence_and_a_default_that_it_allows():
    for policy in POLICIES:
        for schema in policy.config_schema.properties.values() if policy.config_schema else ():
            assert schema["description"].endswith(".")
            jsonschema.validate(schema["default"], schema)


@pytest.mark.parametrize("name", FILES)
def test_the_config_of_an_environment_names_rules_levels_and_parameters_that_there_are(name):
    said = json.loads((ENVIRONMENTS / f"{name}.json").read_text())
    assert list(said) == sorted(said)
    assert set(said) <= set(BY_NAME)
    for rule, content in said.items():
        policy = BY_NAME[rule]
        assert level_of(policy, content) in LEVELS
        given = parameters_of(policy, content)
        schemas = policy.config_schema.properties if policy.config_schema else {}
        assert set(given) == set(schemas)
        for key, value in given.items():
            jsonschema.validate(value, schemas[key])


def test_production_is_nowhere_laxer_than_development():
    strict = {level: rank for rank, level in enumerate(["disabled", "advisory", "mandatory"])}
    dev, prod = (json.loads((ENVIRONMENTS / f"{name}.json").read_text()) for name in ("dev", "prod"))
    laxer = {
        name
        for name, policy in BY_NAME.items()
        if strict[level_of(policy, prod.get(name))] < strict[level_of(policy, dev.get(name))]
    }
    assert laxer == set()


def test_the_page_of_rules_is_fresh():
    page = reference.PAGE.read_text()
    assert reference.text(page) == page, "run python -m policy.reference"
    assert all(f"`{name}`" in page for name in BY_NAME)
