"""`ops check` knows which tags the policies of a stack's environment require."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ops import project
from ops.check import check
from ops.stack import stack
from tests.unit.config.examples import GOOD, GOOD_ON_GCP

OURS = ["tidemill:team", "tidemill:environment"]


def run(folder: Path, good: dict, pack: object, **more: object) -> tuple[int, str]:
    """The exit code and output of a check of a stack file of dev, with `more` keys."""
    for name in ("stacks", "environments", "rules"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "rules" / "aws_any_resource_tags.py").touch()
    (folder / "environments" / "dev.json").write_text(pack if isinstance(pack, str) else json.dumps(pack))
    gcp = good.get("cloud") == "gcp"
    places = {"gcp:region": "us-central1", "gcp:project": "vision-dev"} if gcp else {"aws:region": "us-west-2"}
    keys = {f"tidemill:{key}": value for key, value in {**good, **more}.items()}
    (folder / "stacks" / "Pulumi.vision-dev.yaml").write_text(yaml.safe_dump({"config": {**places, **keys}}))
    done = CliRunner().invoke(check, [])
    return done.exit_code, done.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(project, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(project, "POLICY", tmp_path)
    return tmp_path


def requiring(*keys: str, **more: object) -> dict[str, object]:
    return {"aws-any-resource-tags": {"required": [*OURS, *keys], **more}}


def test_a_required_tag_that_is_missing_is_named_with_the_key_to_set(folder: Path) -> None:
    code, output = run(folder, GOOD, requiring("CostCenter"))
    assert (code, output.count("\n")) == (2, 1)
    assert output.startswith("Pulumi.vision-dev.yaml: tidemill:tags.CostCenter is missing; it is required.")
    assert "The policies of dev demand it" in output
    assert "tidemill:environment_tags of Pulumi.yaml" in output


def test_one_without_a_value_is_missing_too(folder: Path) -> None:
    code, output = run(folder, GOOD, requiring("CostCenter"), tags={"CostCenter": ""})
    assert (code, "tidemill:tags.CostCenter is missing" in output) == (2, True)


@pytest.mark.parametrize("typed", ["costcenter", "cost-center", "Cost Center"])
def test_a_tag_that_only_looks_like_it_is_named(folder: Path, typed: str) -> None:
    code, output = run(folder, GOOD, requiring("CostCenter"), tags={typed: "4711"})
    assert code == 2
    assert f"(policy/environments/dev.json): rename {typed}" in output


def test_on_gcp_it_is_the_label(folder: Path) -> None:
    pack = {"gcp-any-resource-labels": {"required": ["tidemill-team", "cost-center"]}}
    assert "tidemill:tags.cost-center is missing" in run(folder, GOOD_ON_GCP, pack)[1]
    assert run(folder, GOOD_ON_GCP, pack, tags={"cost-center": "4711"})[0] == 0


def test_it_may_be_the_environments(folder: Path) -> None:
    of = {"dev": {"aws": {"CostCenter": "4711"}}}
    assert run(folder, GOOD, requiring("CostCenter"), environment_tags=of)[0] == 0
    declared = {"config": {"tidemill:environment_tags": {"default": of}}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(declared))
    assert run(folder, GOOD, requiring("CostCenter"))[0] == 0


def test_a_value_that_is_not_allowed_is_named(folder: Path) -> None:
    pack = requiring(allowed={"CostCenter": ["4711", "4712"]})
    code, output = run(folder, GOOD, pack, tags={"CostCenter": "9"})
    assert code == 2
    assert 'tidemill:tags.CostCenter: "9" is not allowed. Allowed: 4711 or 4712.' in output
    assert run(folder, GOOD, pack, tags={"CostCenter": "4712"})[0] == 0
    assert run(folder, GOOD, pack)[0] == 0, "no tag, no value"


def test_provider_defaults_do_not_count_because_machines_lack_them(folder: Path) -> None:
    run(folder, GOOD, requiring("CostCenter"))
    file = folder / "stacks" / "Pulumi.vision-dev.yaml"
    file.write_text(file.read_text() + "  aws:defaultTags: {tags: {CostCenter: '4711'}}\n")
    assert CliRunner().invoke(check, []).exit_code == 2


@pytest.mark.parametrize(
    "pack",
    [
        {},
        "{",
        "[]",
        {"aws-any-resource-tags": "disabled"},
        *(requiring(**odd) for odd in ({"required": 5}, {"required": [1]}, {"allowed": 5}, {"allowed": {"a": [1]}})),
        requiring("CostCenter", enforcementLevel="advisory"),
        {"gcp-any-resource-labels": {"required": ["cost-center"]}},
    ],
)
def test_what_does_not_hold_for_the_stack_is_not_asked(folder: Path, pack: object) -> None:
    assert run(folder, GOOD, pack)[0] == 0


def test_a_waiver_leaves_it_to_the_policies(folder: Path) -> None:
    until = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(2)
    waiver = {"rule": "aws-any-resource-tags", "reason": "The cost center is not known yet", "until": str(until)}
    assert run(folder, GOOD, requiring("CostCenter"), waivers=[waiver])[0] == 0


def test_a_new_stack_file_has_the_required_tags_to_fill_in(folder: Path) -> None:
    for name in ("stacks", "environments"):
        (folder / name).mkdir()
    pack = requiring("CostCenter", "Owner", "Unit", allowed={"Unit": ["a", "b"]})
    (folder / "environments" / "prod.json").write_text(json.dumps(pack))
    of = {"config": {"tidemill:environment_tags": {"default": {"prod": {"aws": {"Owner": "platform"}}}}}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump(of))
    done = CliRunner().invoke(stack, ["--team", "vision", "--env", "prod"])
    assert done.exit_code == 0, done.output
    assert "Fill in the image of the queue cpu, the budget and the tags, then:" in done.output
    written = yaml.safe_load((folder / "stacks" / "Pulumi.vision-prod.yaml").read_text())["config"]
    assert written["tidemill:tags"] == {"CostCenter": "fill-in", "Unit": "a"}
