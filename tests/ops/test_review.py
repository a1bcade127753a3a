"""The review of the engine's own previews, recorded on localcloud (tests/ops/make_previews.py), and golden files."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from ops.review.command import review
from ops.review.models import SCHEMA, schema
from tests.ops.make_previews import AS_JSON, GOLDEN, load, review_of
from tests.ops.review_steps import document, step
from tests.ops.scenarios import names

ROOT = Path(__file__).parents[2]
DIGEST = {"steps": [step("create", "aws:s3/bucket:Bucket", new={"bucket": "a"})], "config": {"tidemill:cloud": "aws"}}


@pytest.mark.parametrize("name", names())
def test_a_recorded_preview_gives_its_golden_review(name):
    markdown, as_json = review_of(name)
    assert markdown == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")
    assert name not in AS_JSON or as_json == (GOLDEN / f"{name}.json").read_text(encoding="utf-8")


def test_every_golden_file_has_its_scenario():
    assert {path.stem for path in GOLDEN.iterdir()} == set(names())


@pytest.mark.parametrize("name", names())
def test_the_json_is_what_its_schema_says(name):
    jsonschema.validate(json.loads(review_of(name)[1]), json.loads(SCHEMA.read_text()))


def test_the_schema_is_fresh():
    assert SCHEMA.read_text() == schema(), "python -m ops.review.models"


@pytest.mark.parametrize("name", names())
def test_no_recording_holds_a_machines_paths(name):
    text = load(name)
    assert not [word for word in ("/tmp/", "/root/", "/home/", "stackTrace") if word in text]


def golden(name: str) -> dict:
    (found,) = json.loads(review_of(name)[1])["stacks"]
    return found


def severities(name: str) -> set[tuple[str, str]]:
    return {(finding["severity"], finding["kind"]) for finding in golden(name)["findings"]}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("no-change", set()),
        ("more-capacity", {("high", "capacity"), ("medium", "capacity"), ("low", "policy")}),
        ("replace-refused", {("critical", "failed"), ("high", "jobs-interrupted")}),
        ("replace-allowed", {("high", "jobs-interrupted"), ("high", "protection-lifted"), ("medium", "policy")}),
        (
            "other-machines",
            {("high", "jobs-interrupted"), ("medium", "spot"), ("medium", "capacity")},
        ),
        ("wider-access", {("high", "access-widened"), ("low", "access-widened")}),
        ("kept-shorter", {("high", "state-expires")}),
        ("purge", {("critical", "protection-lifted"), ("high", "protection-lifted"), ("medium", "policy")}),
        ("queue-removed", {("critical", "failed"), ("high", "jobs-interrupted")}),
        ("way-in", {("critical", "failed"), ("critical", "network-opened"), ("critical", "policy")}),
        ("violated", {("critical", "failed"), ("critical", "policy"), ("medium", "policy")}),
        ("waived", {("medium", "policy"), ("medium", "waiver")}),
        ("egress-opened", {("high", "network-opened"), ("high", "jobs-interrupted")}),
        ("failed", {("critical", "failed")}),
        ("gcp-other-template", {("medium", "capacity"), ("low", "jobs-interrupted")}),
        ("gcp-pool-removed", {("critical", "failed"), ("critical", "state-lost"), ("high", "jobs-interrupted")}),
        ("gcp-purge", {("critical", "protection-lifted"), ("high", "protection-lifted"), ("medium", "policy")}),
    ],
)
def test_a_change_is_as_dangerous_as_it_is(name, wanted):
    """The code under test writes the golden files; this list was written by hand."""
    assert severities(name) == wanted


def test_a_first_up_has_nothing_dangerous_and_shows_what_it_may_cost():
    found = golden("first-up")
    assert {finding["severity"] for finding in found["findings"]} <= {"medium", "low"}
    by_name = {fleet["name"]: fleet for fleet in found["fleets"]}
    assert by_name["vision-prod-cpu-spot"]["cpus_before"] is None
    assert by_name["vision-prod-cpu-spot"]["cpus_after"] == 4000
    # At a quarter to half a dollar per machine of 8 to 32 vCPUs; the seventh generation has no known price.
    assert by_name["vision-prod-cpu-spot"]["usd_hour_after"]["low"] == 4000 // 32 * 0.25
    assert by_name["vision-prod-cpu-spot"]["usd_hour_after"]["high"] == 4000 // 8 * 0.5
    assert "m7i.2xlarge" in by_name["vision-prod-cpu-spot"]["usd_hour_after"]["unknown"]


def test_the_same_preview_in_another_order_is_the_same_review(tmp_path):
    found = json.loads(load("purge"))
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps(found))
    found["preview"]["steps"].reverse()
    other.write_text(json.dumps(found))
    texts = [CliRunner().invoke(review, [str(path)]).output for path in (one, other)]
    assert texts[0] == texts[1]
    assert "critical" in texts[0]


def run(*arguments, **files) -> tuple[int, str]:
    done = CliRunner().invoke(review, [str(argument) for argument in arguments])
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("name", "fail_on", "code"),
    [
        ("no-change", "medium", 0),
        ("more-capacity", "critical", 0),
        ("more-capacity", "medium", 4),
        ("other-machines", "critical", 0),
        ("other-machines", "high", 4),
        ("purge", "critical", 5),
        ("purge", "medium", 5),
        ("failed", "critical", 5),
    ],
)
def test_the_exit_code_is_the_worst_finding_that_counts(tmp_path, name, fail_on, code):
    path = tmp_path / "preview.json"
    path.write_text(load(name))
    assert run(path, "--fail-on", fail_on)[0] == code


def test_it_writes_files_in_place_of_the_comment_and_reviews_a_folder(tmp_path):
    folder = tmp_path / "previews"
    folder.mkdir()
    for name in ("purge", "first-up"):
        (folder / f"{name}.json").write_text(load(name))
    markdown, target = tmp_path / "comment.md", tmp_path / "review.json"
    code, output = run(folder, "--markdown", markdown, "--json", target)
    assert (code, output) == (5, "")
    found = json.loads(target.read_text())
    assert [each["stack"] for each in found["stacks"]] == ["vision-dev", "vision-prod"]
    assert markdown.read_text().startswith("## Tidemill: ")


def test_the_engines_own_json_is_reviewed_too(tmp_path):
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(DIGEST))
    code, output = run(path)
    assert code == 0
    assert "| `vision-dev` | 1 | 0 | 0 | 0 | 0 | 0 |" in output


def without(key: str) -> str:
    found = document()
    del found[key]
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("  \n", "the file is empty"),
        (json.dumps(document())[:200], "incomplete JSON"),
        ("[]", "this is not a preview"),
        ('{"a": 1}', "this is not a preview"),
        ('{"steps": []}', "steps has no resources"),
        (json.dumps(document(version=2)), "version is 2; this reads version 1"),
        (json.dumps(document({**step("create", "a:b:C", new={}), "op": "teleport"})), "newer engine"),
        (json.dumps(document({**step("create", "a:b:C", new={}), "urn": "x"})), "preview.steps.0.urn is 'x'"),
        (json.dumps(document(step("update", "a:b:C", old={}, new={}, diff={"x": "melt"}))), "detailedDiff.x.kind"),
        (without("exit_code"), "exit_code"),
        (json.dumps(document(exit_code="bad")), "exit_code is 'bad'"),
        (json.dumps(document(waivers=[{"rule": "a", "reason": "b", "until": "soon"}])), "waivers.0.until is 'soon'"),
    ],
)
def test_a_file_that_is_no_preview_is_one_clear_error(tmp_path, text, says):
    path = tmp_path / "preview.json"
    path.write_text(text)
    code, output = run(path)
    assert code == 2
    assert str(path) in output
    assert says in output
    assert "Traceback" not in output


def test_a_callers_mistake_exits_2_and_says_which(tmp_path):
    path = tmp_path / "preview.json"
    path.write_text(json.dumps(document()))
    (tmp_path / "empty").mkdir()
    for arguments, says in [
        ([], "--stack STACK"),
        ([tmp_path / "none.json"], "No such file"),
        ([tmp_path / "empty"], "no *.json"),
        ([path, path], "stack vision-dev is also in"),
        ([path, "--stack", "vision-dev"], "stack vision-dev is also in"),
        (["--stack", "vision-prd"], "there is no stacks/Pulumi.vision-prd.yaml"),
        ([path, "--markdown", tmp_path / "no" / "x.md"], "--markdown"),
        ([path, "--fail-on", "low"], "critical"),
    ]:
        code, output = run(*arguments)
        assert code == 2, output
        assert says in output


def test_it_is_a_command_of_ops(tmp_path):
    path = tmp_path / "preview.json"
    path.write_text(load("failed"))
    command = [sys.executable, "-m", "ops", "review", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stdout.startswith("## Tidemill: the preview failed; 1 critical, no resources change\n")
