"""Tags that a cloud refuses: one sentence that names the key and the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import ConfigError, from_file, parse
from tests.unit.config.examples import GOOD, GOOD_ON_GCP

BASE = {"aws": GOOD, "gcp": GOOD_ON_GCP}
CASES = [
    (
        "aws",
        {"aws:owner": "a"},
        'tidemill:tags."aws:owner": "aws:owner" is not allowed',
        "aws:, which AWS keeps",
        "Rename",
    ),
    ("aws", {"AWS:owner": "a"}, 'tidemill:tags."AWS:owner"', "aws:, which AWS keeps", "Rename"),
    ("aws", {"tidemill:team": "a"}, 'tidemill:tags."tidemill:team"', "begin with tidemill", "Rename"),
    ("aws", {"Tidemill-x": "a"}, "tidemill:tags.Tidemill-x", "begin with tidemill", "Rename"),
    ("aws", {"k" * 129: "a"}, f"tidemill:tags.{'k' * 129}", "1 to 128 characters; this one has 129", "Shorten"),
    ("aws", {"": "a"}, 'tidemill:tags.""', "1 to 128 characters; this one has 0", "Name the tag"),
    ("aws", {"cost#": "a"}, 'tidemill:tags."cost#"', "letters, digits, spaces and any of _ . : / = + - @", "Leave out"),
    ("aws", {"a\tb": "a"}, 'tidemill:tags."a\\tb"', "letters, digits, spaces", "Leave out"),
    ("aws", {"Name": "a"}, "tidemill:tags.Name", "other than Name", "Rename"),
    ("aws", {"a": "v" * 257}, "tidemill:tags.a", "at most 256 characters; this one has 257", "Shorten"),
    ("aws", {"a": "50%"}, 'tidemill:tags.a: "50%" is not allowed', "values of letters, digits", "Leave out"),
    ("aws", {"a": "aws:x"}, 'tidemill:tags.a: "aws:x"', "aws:, which AWS keeps", "Change"),
    ("aws", {"a": 4711}, "tidemill:tags.a: 4711 is not allowed", "Allowed: a text", "Quote numbers"),
    ("aws", {f"k{number}": "a" for number in range(21)}, "tidemill:tags: 21 tags is not", "at most 20", "Remove some"),
    (
        "aws",
        {"CostCenter": "a", "costcenter": "b"},
        "tidemill:tags.costcenter",
        'unlike "CostCenter": IAM takes the two for one',
        "one spelling",
    ),
    (
        "gcp",
        {"CostCenter": "a"},
        'tidemill:tags.CostCenter: "CostCenter"',
        "lower-case letters",
        "spell it cost-center",
    ),
    ("gcp", {"cost center": "a"}, 'tidemill:tags."cost center"', "lower-case letters", "spell it cost-center"),
    ("gcp", {"Cost Center:ID": "a"}, 'tidemill:tags."Cost Center:ID"', "lower-case", "spell it cost-center-id"),
    ("gcp", {"1st": "a"}, "tidemill:tags.1st", "beginning with a letter", "Rename it"),
    ("gcp", {"k" * 64: "a"}, f"tidemill:tags.{'k' * 64}", "1 to 63", "Rename it"),
    ("gcp", {"goog-x": "a"}, "tidemill:tags.goog-x", "goog, which Google keeps", "Rename"),
    ("gcp", {"tidemill-team": "a"}, "tidemill:tags.tidemill-team", "begin with tidemill", "Rename"),
    ("gcp", {"owner": "Vision Team"}, 'tidemill:tags.owner: "Vision Team"', "at most 63 lower-case", "vision-team"),
    ("gcp", {"owner": "é"}, "tidemill:tags.owner", "at most 63 lower-case", "Change it"),
    ("gcp", {f"k{number}": "a" for number in range(51)}, "tidemill:tags: 51 tags", "at most 50", "Remove some"),
]


def refused(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        parse(config)
    (line,) = str(error.value).splitlines()
    return line


@pytest.mark.parametrize(("cloud", "tags", "begins", "rule", "fix"), CASES)
def test_a_wrong_tag_is_named_with_the_rule(cloud: str, tags: dict[str, Any], begins: str, rule: str, fix: str) -> None:
    line = refused({**BASE[cloud], "tags": tags})
    assert line.startswith(begins)
    assert rule in line
    assert fix in line


@pytest.mark.parametrize(
    ("cloud", "tags"),
    [
        ("aws", {"k" * 128: "v" * 256}),
        ("aws", {"Kosten Stelle/Ä": "", "a.b:c/d=e+f-g@h_1": "x@y.z"}),
        ("aws", {f"k{number}": "a" for number in range(20)}),
        ("gcp", {"k" * 63: "v" * 63, "a_b-1": ""}),
        ("gcp", {f"k{number}": "a" for number in range(50)}),
    ],
)
def test_what_a_cloud_takes_passes(cloud: str, tags: dict[str, str]) -> None:
    assert parse({**BASE[cloud], "tags": tags}).company_tags == tags


def test_the_tags_of_an_environment_are_judged_for_its_own_stacks_alone() -> None:
    of = {"dev": {"aws": {"CostCenter": "1"}, "gcp": {"CostCenter": "1"}}, "prod": {"aws": {"aws:x": "1"}}}
    assert parse({**GOOD, "environment_tags": of}).company_tags == {"CostCenter": "1"}
    line = refused({**GOOD_ON_GCP, "environment_tags": of})
    assert line.startswith("tidemill:environment_tags.dev.gcp.CostCenter:")
    assert "On GCP spell it cost-center." in line


def test_the_two_together_are_counted_and_compared() -> None:
    of = {"dev": {"aws": {f"k{number}": "a" for number in range(11)}}}
    own = {f"m{number}": "a" for number in range(10)}
    assert refused({**GOOD, "environment_tags": of, "tags": own}).startswith("tidemill:tags: 21 tags is not allowed")
    line = refused({**GOOD, "environment_tags": {"dev": {"aws": {"Owner": "a"}}}, "tags": {"owner": "b"}})
    assert line.startswith("tidemill:tags.owner:")
    assert 'unlike "Owner"' in line


def test_a_cloud_or_environment_that_cannot_be_is_refused() -> None:
    assert refused({**GOOD, "environment_tags": {"dev": {"azure": {}}}}).startswith(
        "tidemill:environment_tags.dev.azure"
    )
    assert refused({**GOOD, "environment_tags": {"Dev": {}}}).startswith("tidemill:environment_tags.Dev")


def test_a_file_is_read_with_the_defaults_of_its_project(tmp_path: Path) -> None:
    """As the engine fills them in: a key that the file sets replaces the project's."""
    file = tmp_path / "stacks" / "Pulumi.vision-dev.yaml"
    file.parent.mkdir()
    config = {"aws:region": "us-west-2", **{f"tidemill:{key}": value for key, value in GOOD.items()}}
    file.write_text(yaml.safe_dump({"config": config}))
    assert from_file(file).company_tags == {}
    default = {"dev": {"aws": {"CostCenter": "4711", "Owner": "platform"}}}
    declared = {
        "tidemill:environment_tags": {"type": "object", "default": default},
        "tidemill:team": {"type": "string"},
    }
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "tidemill", "config": declared}))
    assert from_file(file).company_tags == default["dev"]["aws"]
    own = {**config, "tidemill:tags": {"Owner": "vision"}}
    file.write_text(yaml.safe_dump({"config": own}))
    assert from_file(file).company_tags == {"CostCenter": "4711", "Owner": "vision"}
    file.write_text(yaml.safe_dump({"config": {**own, "tidemill:environment_tags": {}}}))
    assert from_file(file).company_tags == {"Owner": "vision"}


@pytest.mark.parametrize("number", ["4711", "0815", "1e3", "0755", "1.5", "true", "null"])
def test_a_value_that_the_engine_reads_as_no_text_needs_quotes(tmp_path: Path, number: str) -> None:
    file = tmp_path / "Pulumi.vision-dev.yaml"
    config = {"aws:region": "us-west-2", **{f"tidemill:{key}": value for key, value in GOOD.items()}}
    text = yaml.safe_dump({"config": config})
    file.write_text(f"{text}  tidemill:tags: {{CostCenter: {number}}}\n")
    with pytest.raises(ConfigError, match="Allowed: a text") as error:
        from_file(file)
    assert "Quote numbers" in str(error.value)
    file.write_text(f"{text}  tidemill:tags: {{CostCenter: '{number}'}}\n")
    assert from_file(file).company_tags == {"CostCenter": number}


@pytest.mark.parametrize(
    ("cloud", "tags", "wrong"),
    [
        (
            "aws",
            {"aws:defaultTags": {"tags": {"CostCenter": "a", "Tidemill:Environment": "prod"}}},
            "aws:defaultTags.tags",
        ),
        ("aws", {"aws:defaultTags": '{"tags": {"tidemill:team": "audio"}}'}, "aws:defaultTags.tags"),
        ("gcp", {"gcp:defaultLabels": {"tidemill-team": "audio"}}, "gcp:defaultLabels"),
        ("aws", {"aws:defaultTags": {"tags": {"CostCenter": "a"}}}, ""),
        ("aws", {"aws:defaultTags": "{"}, ""),
        ("aws", {"aws:defaultTags": {"tags": 5}}, ""),
        ("gcp", {"gcp:defaultLabels": ["tidemill-team"]}, ""),
    ],
)
def test_a_provider_adds_no_tag_of_tidemills_own(tmp_path: Path, cloud: str, tags: dict[str, Any], wrong: str) -> None:
    """IAM takes `Tidemill:Environment` and `tidemill:environment` for one key, and then finds either value."""
    places = (
        {"gcp:region": "us-central1", "gcp:project": "vision-dev"} if cloud == "gcp" else {"aws:region": "us-west-2"}
    )
    keys = {f"tidemill:{key}": value for key, value in BASE[cloud].items()}
    file = tmp_path / "Pulumi.vision-dev.yaml"
    file.write_text(yaml.safe_dump({"config": {**places, **keys, **tags}}))
    if not wrong:
        from_file(file)
        return
    with pytest.raises(ConfigError) as caught:
        from_file(file)
    assert (caught.value.what, "begin with tidemill" in caught.value.allowed) == (wrong, True)
