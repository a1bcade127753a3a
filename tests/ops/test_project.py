"""Copies of the project for trials. tests/engine shows what a trial then does with the engine."""

import click
import pytest
import yaml

from ops import project


@pytest.fixture
def stacks(tmp_path, monkeypatch):
    folder = tmp_path / "stacks"
    folder.mkdir()
    monkeypatch.setattr(project, "STACKS", folder)
    return folder


def test_a_copy_has_stack_files_of_its_own_without_the_backends_secrets(tmp_path, stacks):
    original = stacks / "Pulumi.vision-dev.yaml"
    original.write_text("secretsprovider: awskms://alias/x\nencryptedkey: AAA\nconfig:\n  tidemill:team: vision\n")
    before = original.read_text()
    folder = tmp_path / "copy"
    folder.mkdir()
    copied = project.copy_project(folder, "vision-dev") / "stacks" / "Pulumi.vision-dev.yaml"
    assert yaml.safe_load(copied.read_text()) == {"config": {"tidemill:team": "vision"}}
    copied.write_text("changed")
    assert original.read_text() == before
    assert (folder / "policy").resolve() == project.POLICY


def test_a_stack_that_is_not_there_is_answered_with_those_that_are(stacks):
    (stacks / "Pulumi.vision-dev.yaml").touch()
    (stacks / "Pulumi.demo-aws.yaml").touch()
    with pytest.raises(click.UsageError) as caught:
        project.stack_file("vision-prd")
    assert "--stack vision-prd" in caught.value.message
    assert "demo-aws, vision-dev" in caught.value.message


def test_an_environment_is_as_strict_as_its_own_file_says_or_the_default_one():
    own, other = project.policy_options("prod"), project.policy_options("nightly")
    assert own[:3] == ["--policy-pack", str(project.POLICY), "--policy-pack-config"]
    assert own[3].endswith("policy/environments/prod.json")
    assert other[3].endswith("policy/environments/default.json")
