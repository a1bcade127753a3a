"""What a stack takes over, by the rules that need more than one key. What exists is for the engine's tests."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.config import ConfigError, parse
from components.config.checks.place import check_place
from tests.fields import about
from tests.unit.config.examples import GOOD, GOOD_ON_GCP

QUEUE = "arn:aws:batch:us-west-2:123456789012:job-queue/old"
REPOSITORY = "projects/vision/locations/us-central1/repositories/old"
TOPIC = {"topic": "projects/vision/topics/old", "subscription": "projects/vision/subscriptions/old"}


def config(good: dict[str, Any], imports: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**good, **more, "imports": imports}


def test_a_repository_is_known_by_its_images_and_by_the_registrys_key():
    named = {"default": "registry://preprocess:1.4.1"}
    queues = {"cpu": {"images": named}}
    assert parse(config(GOOD, {"repositories": {"preprocess": "team/old"}}, queues=queues)).imports.repositories
    assert parse(config(GOOD, {"repositories": {"a": "old"}}, registry={"repositories": ["a"]})).imports.repositories


@pytest.mark.parametrize(
    ("imports", "fields"),
    [
        ({"repositories": {"a": "old", "b": "old"}}, ("b", '"old"', "each value")),
        ({"repositories": {"bb": "old"}}, ("bb", "'bb'", "this")),
    ],
)
def test_each_is_taken_over_once_and_by_a_name_that_the_stack_has(imports, fields):
    name, value, allowed = fields
    with pytest.raises(ConfigError, check=about(f"tidemill:imports.repositories.{name}", value, allowed)):
        parse(config(GOOD, imports, registry={"repositories": ["a", "b"]}))


@pytest.mark.parametrize(
    ("good", "imports", "key", "region"),
    [
        (GOOD, {"queues": {"cpu": {"job_queue": QUEUE}}}, "tidemill:imports.queues.cpu.job_queue", "eu-north-1"),
        (GOOD_ON_GCP, {"repository": REPOSITORY}, "tidemill:imports.repository", "europe-north1"),
    ],
)
def test_what_is_in_another_region_is_refused(good, imports, key, region):
    parsed = parse(config(good, imports))
    check_place(parsed, None, None)
    with pytest.raises(ConfigError, check=about(key, allowed=f"{region}, the stack's region")):
        check_place(parsed, region, "vision")


def test_what_is_in_another_project_is_refused():
    parsed = parse(config(GOOD_ON_GCP, {"queues": {"cpu": TOPIC}}))
    check_place(parsed, "us-central1", "vision")
    with pytest.raises(
        ConfigError, check=about("tidemill:imports.queues.cpu.topic", allowed="other, the stack's project")
    ):
        check_place(parsed, "us-central1", "other")


def test_the_stack_files_of_the_documentation_are_right():
    text = (Path(__file__).resolve().parents[3] / "docs" / "upgrading.md").read_text()
    blocks = [yaml.safe_load(textwrap.dedent(block)) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    capacities = [block["capacity"] for block in blocks if "capacity" in block]
    on_aws, on_gcp = (block["tidemill:imports"] for block in blocks if "tidemill:imports" in block)
    assert len(capacities) == 2
    for capacity in capacities:
        parse({**GOOD, "queues": {"cpu": GOOD["queues"]["cpu"] | {"capacity": capacity}}})
    check_place(parse(config(GOOD, on_aws, registry={"repositories": ["preprocess"]})), "us-west-2", None)
    check_place(parse(config(GOOD_ON_GCP, on_gcp)), "us-central1", "vision-dev")
