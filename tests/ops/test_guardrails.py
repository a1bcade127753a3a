"""Changes of what guards the stacks: the text before, the text after, and what a careful reviewer expects."""

import json
import math
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from components.rooms import CLOUDS
from ops import affected, project
from ops.imports import closure
from ops.owners import owners, text
from ops.review import guardrails
from ops.review.command import review

ROOT = Path(__file__).parents[2]
DEV = "policy/environments/dev.json"
PROD = "policy/environments/prod.json"
STACK = "stacks/Pulumi.vision-dev.yaml"
CLOSED, CAP = "aws-s3-bucket-closed", "aws-batch-compute-environment-money-cap"
TAGS = "aws-any-resource-tags"
UNKNOWN_PRICE = "unknownUsdPerCpuHour"
PIN = "      - uses: actions/checkout@{} # v{}\n"


def waivers(*rows: dict) -> str:
    return json.dumps({"config": {"tidemill:waivers": list(rows)}})


def of_provider(**settings: object) -> str:
    return json.dumps({"config": {"tidemill:team": "vision", **settings}})


ROLE = [{"roleArn": "arn:aws:iam::123456789012:role/x"}]
ONE = {"rule": CLOSED, "resource": "scratch", "reason": "vendor", "until": "2027-01-31"}
LATER = {**ONE, "until": "2027-06-30"}

EDITS = [
    (DEV, "{}", {CLOSED: "disabled"}, [("critical", f"{CLOSED} is less strict in dev")]),
    (DEV, "{}", {CLOSED: "advisory"}, [("critical", f"{CLOSED} is less strict in dev")]),
    (DEV, "{}", {"aws-batch-job-queue-spot-first": "advisory"}, [("high", "less strict")]),
    (DEV, {CLOSED: "advisory"}, "{}", [("low", "stricter")]),
    (DEV, {CAP: {"maxUsdPerHour": 200}}, {CAP: {"maxUsdPerHour": 1_000_000}}, [("high", "less strict")]),
    (DEV, {CAP: {"maxUsdPerHour": 200}}, "{}", [("high", "less strict")]),
    (DEV, {CAP: {"maxUsdPerHour": 200}}, {CAP: {"maxUsdPerHour": 100}}, [("low", "stricter")]),
    (DEV, {CAP: {"maxUsdPerHour": 200}}, {CAP: {"maxUsdPerHour": 200, "enforcementLevel": "advisory"}}, [("high", "")]),
    (DEV, "{}", {CAP: {UNKNOWN_PRICE: 0.2}}, [("high", "less strict")]),
    (DEV, {CAP: {UNKNOWN_PRICE: 0.2}}, {CAP: {UNKNOWN_PRICE: 0}}, [("low", "stricter")]),
    (DEV, {CAP: {UNKNOWN_PRICE: 0.2}}, "{}", [("low", "stricter")]),
    (DEV, {CAP: {UNKNOWN_PRICE: 0.2}}, {CAP: {UNKNOWN_PRICE: 0.4}}, [("low", "stricter")]),
    (DEV, {CAP: {UNKNOWN_PRICE: 0.2}}, {CAP: {UNKNOWN_PRICE: 0.1}}, [("high", "less strict")]),
    (DEV, {CAP: {UNKNOWN_PRICE: 0.2}}, {CAP: {UNKNOWN_PRICE: "a"}}, [("high", "less strict")]),
    *((DEV, {TAGS: {"required": ["a"]}}, {TAGS: {"required": odd}}, [("high", "less strict")]) for odd in (5, [1], {})),
    *((DEV, {TAGS: {"allowed": each}}, {TAGS: {"allowed": 5}}, [("high", "")]) for each in ({"a": [["b"]]}, ["b"])),
    (DEV, "{}", {TAGS: {"allowed": 5}}, [("high", "less strict")]),
    (DEV, {CAP: {"maxUsdPerHour": 200}}, {CAP: {"maxUsdPerHour": math.nan}}, [("high", "less strict")]),
    (DEV, {"x": {"days": 14}}, {"x": {"days": 31}}, [("low", "stricter")]),
    (DEV, {"x": {"forbidPublic": True}}, {"x": {"forbidPublic": False}}, [("high", "less strict")]),
    (DEV, "{}", "{", [("high", "cannot be read")]),
    (DEV, "{}", "[1]", [("high", "cannot be read")]),
    (DEV, "{}", {CLOSED: {"enforcementLevel": ["disabled"]}}, [("critical", "less strict")]),
    (PROD, {"x": {"forbidPublic": True}}, None, [("high", "less strict")]),
    ("policy/environments/new.json", None, {CLOSED: "disabled"}, [("critical", "in new")]),
    ("policy/rules/aws_s3_bucket_closed.py", "a", "b", [("high", "the policies change")]),
    ("policy/rules/aws_s3_bucket_closed.py", "a", None, [("high", "a file is removed")]),
    (STACK, waivers(), waivers(ONE), [("high", f"waives {CLOSED} for scratch until 2027-01-31")]),
    (STACK, waivers(ONE), waivers(LATER), [("high", "prolongs the waiver")]),
    (STACK, None, waivers(ONE), [("high", "waives")]),
    (STACK, waivers(LATER), waivers(ONE), []),
    (STACK, waivers(ONE), None, []),
    (STACK, waivers(ONE), "config: [", []),
    (STACK, of_provider(), of_provider(**{"aws:assumeRoles": ROLE}), [("high", "login: aws:assumeRoles")]),
    (STACK, of_provider(**{"aws:profile": "a"}), of_provider(), [("high", "login: aws:profile")]),
    (STACK, of_provider(**{"gcp:project": "a"}), of_provider(**{"gcp:project": "b"}), [("high", "gcp:project")]),
    (STACK, of_provider(), of_provider(**{"aws:assumeRoles[0].roleArn": "a"}), [("high", "aws:assumeRoles")]),
    (STACK, of_provider(), of_provider(**{"aws:defaultTags": {"tags": {"a": "b"}}}), []),
    (STACK, None, of_provider(**{"gcp:project": "a"}), []),
    (STACK, of_provider(**{"gcp:project": "a"}), None, []),
    (".github/workflows/deploy.yml", "environment: prod", "", [("high", "CI's logins")]),
    (".github/workflows/deploy.yml", PIN.format("a", 1), PIN.format("b", 2), [("medium", "versions")]),
    (".github/CODEOWNERS", "* @a", None, [("high", "removed")]),
    (".github/CODEOWNERS", None, "* @a", [("low", "first time")]),
    ("bootstrap/__main__.py", "a", "b", [("high", "CI's identities")]),
    ("components/aws/ci/policies.py", "a", "b", [("high", "CI's identities")]),
    ("components/gcp/ci_permissions.py", "a", "b", [("high", "CI's identities")]),
    ("ops/review/state.py", "a", "b", [("medium", "reviews")]),
    ("requirements.txt", "a", "b", [("medium", "packages")]),
    ("requirements.txt", "pulumi-aws==7.51.1 \\\n", "pulumi-aws==7.52.0 \\\n", [("medium", "packages")]),
    ("requirements.txt", "a\npulumi-aws==7.51.1 \\\n", "a\npulumi-aws==8.0.0 \\\n", [("high", "major version")]),
    ("pyproject.toml", "a", "b", [("medium", "packages")]),
    ("Makefile", "a", "b", [("medium", "before it logs in")]),
    ("tidemill/mountable.py", "a", "b", [("high", "jobs may mount")]),
    ("tidemill/planned_fleet.py", "a", "b", [("high", "count machines and money")]),
    ("tidemill/services/batch/__init__.py", "a", "b", [("high", "count machines and money")]),
    ("tidemill/prices/data/gcp/us-central1.json.gz", "a", "b", [("medium", "the prices")]),
    ("tidemill/prices/data/own.json", "[]", '[\n{"usd_hour": 0.01}\n]', [("high", "set by hand")]),
    ("tidemill/prices/dearest.py", "a", "b", [("high", "count machines and money")]),
    ("tidemill/machines/__init__.py", "a", "b", [("high", "count machines and money")]),
    ("tidemill/machines/data/aws.json", "a", "b", [("medium", "the machines")]),
    ("components/rooms.py", "a", "b", [("medium", "reviews")]),
    ("localcloud/cloud.py", "a", "b", [("medium", "reviews")]),
    ("tidemill/folders.py", "a", "b", [("medium", "reviews")]),
    # What GitLab, Pulumi, make, uv and Python read beside, or in place of, the files that are here.
    (".gitlab-ci.yml", "a", "b", [("high", "CI's logins")]),
    ("examples/gitlab/login.sh", "a", "b", [("high", "CI's logins")]),
    (".gitlab/CODEOWNERS", "* @a", "", [("high", "CI's logins")]),
    ("CODEOWNERS", None, "", [("high", "who must approve")]),
    ("Pulumi.json", None, "{}", [("high", "in place of Pulumi.yaml")]),
    ("GNUmakefile", None, "all:", [("high", "CI's logins")]),
    ("uv.toml", None, "", [("high", "CI's logins")]),
    (".venv/bin/uv", None, "", [("high", "CI's logins")]),
    ("click.py", None, "", [("critical", "in place of the package")]),
    ("yaml/__init__.py", None, "", [("critical", "in place of the package")]),
    ("json.cpython-311-x86_64-linux-gnu.so", None, "", [("critical", "in place of a source")]),
    ("tidemill/__pycache__/layout.cpython-311.pyc", "a", "b", [("critical", "in place of a source")]),
    ("tidemill/__pycache__/layout.cpython-311.pyc", "a", None, []),
    ("tidemill/capacity/__init__.py", None, "", [("critical", "in place of tidemill/capacity.py")]),
    ("tidemill/another/__init__.py", None, "", []),
    ("build/prices/aws/us-east-1/spot/00000.json.gz", None, "", [("high", "a refresh of prices")]),
    ("brotli.py", None, "", [("high", "before any package")]),
    ("brotli.py", "a", "b", []),
    ("__main__.py", "a", "b", []),
    ("click/other.py", None, "", []),
    ("tidemill/cli/commands/run.py", "a", "b", []),
    ("tidemill/services/batch/backend.py", "a", "b", []),
    ("docs/ci.md", "a", "b", []),
    ("components/aws/store.py", "a", "b", []),
    ("ops/check.py", "a", "a", []),
]


@pytest.mark.parametrize(("path", "old", "new", "wanted"), EDITS)
def test_an_edit_of_a_guardrail_is_told(path, old, new, wanted):
    texts = {side: json.dumps(each) if isinstance(each, dict) else each for side, each in ((True, old), (False, new))}

    def read(asked: str, before: bool) -> str | None:
        if asked == path:
            return texts[before]
        there = ROOT / asked
        return there.read_text() if there.is_file() else None

    found = list(guardrails.findings([path], read))
    assert [each.severity for each in found] == [severity for severity, _ in wanted]
    assert all(part in each.title for each, (_, part) in zip(found, wanted, strict=True))
    assert all((each.kind, each.resource) == ("guardrail", path) for each in found)


def test_what_guards_nothing_is_not_read():
    """A change of hundreds of files asks git for the guarded ones alone."""
    unguarded = ["docs/ci.md", "tidemill/cli/commands/run.py"]
    assert list(guardrails.findings(unguarded, lambda *_: pytest.fail("read"))) == []


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A checkout with the policies of an environment, committed."""
    path = tmp_path / DEV
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    rule = tmp_path / "policy" / "rules" / "aws_s3_bucket_closed.py"
    rule.parent.mkdir()
    rule.write_text((ROOT / "policy" / "rules" / rule.name).read_text())
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
        begun = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *command]
        subprocess.run(begun, cwd=tmp_path, check=True, timeout=60)
    monkeypatch.setattr(project, "ROOT", tmp_path)
    return tmp_path


def test_a_review_with_a_base_tells_guardrails_without_any_stack(checkout):
    assert "this change affects no stack" in CliRunner().invoke(review, ["--base", "main"]).output
    (checkout / DEV).write_text(json.dumps({CLOSED: "disabled"}))
    (checkout / ".github").mkdir()
    (checkout / ".github" / "new.yml").write_text("on: push")
    done = CliRunner().invoke(review, ["--base", "main"])
    assert done.exit_code == 5, done.output
    assert done.output.startswith("## Tidemill: 1 critical, 1 high; this change affects no stack\n")
    assert f"| critical |  | `{DEV}` |" in done.output


def test_owners_are_written_and_kept_up_to_date(checkout):
    file = checkout / ".github" / "CODEOWNERS"
    file.parent.mkdir()
    file.write_text("* @example/everybody\n")
    run = CliRunner().invoke
    assert run(owners, ["--owner", "@example/platform", "--check"]).exit_code == 1
    for _ in range(2):
        assert run(owners, ["--owner", "@example/platform"]).exit_code == 0
    lines = file.read_text().splitlines()
    assert lines[0] == "* @example/everybody"
    for folder in ("stacks", "policy", ".github", "bootstrap", "ops"):
        assert lines.count(f"/{folder}/ @example/platform") == 1
    assert run(owners, ["--owner", "@example/platform", "--check"]).exit_code == 0
    assert run(owners, ["--owner", "platform"]).exit_code == 2


def test_owners_stay_where_none_are_given(checkout):
    """CI checks the file without knowing whom it names; a project without one is not red."""
    file = checkout / ".github" / "CODEOWNERS"
    run = CliRunner().invoke
    none = run(owners, ["--check"])
    assert (none.exit_code, "nothing to check" in none.output) == (0, True)
    assert run(owners, []).exit_code == 2
    assert not file.exists()
    given = ["--owner", "@example/platform", "--owner", "@lead"]
    assert run(owners, given).exit_code == 0
    assert run(owners, ["--check"]).exit_code == 0
    written = file.read_text()
    file.write_text(written.replace("/policy/ @example/platform @lead\n", ""))
    stale = run(owners, ["--check"])
    assert (stale.exit_code, "run `python -m ops owners`" in stale.output) == (1, True)
    assert run(owners, []).exit_code == 0
    assert file.read_text() == written


TAKEN_FIRST = ("click.py", "yaml/__init__.py", "json.so", "tidemill/capacity/__init__.py", "a/__pycache__/b.pyc")
"""By Python, in place of packages and sources."""


def _owner() -> re.Pattern[str]:
    """Paths that CODEOWNERS covers, as GitHub and GitLab read its patterns: `*` stands for no slash, and a pattern
    without one for names anywhere."""
    lines = [line.split()[0] for line in text(("@a",)).splitlines()[1:]]
    anywhere = [line if line[0] == "/" else f"/**{line}" for line in lines]
    whole = [re.escape(line).replace(r"/\*\*", ".*/").replace(r"\*", "[^/]*") for line in anywhere]
    return re.compile("|".join(line + (".*" if line[-1] == "/" else "$") for line in whole))


def test_what_the_review_guards_has_an_owner():
    """A folder that the review tells of, or that decides what runs with CI's logins, is in CODEOWNERS."""
    for start in [*(start for start, *_ in guardrails.GUARDS), *TAKEN_FIRST]:
        assert _owner().match(f"/{start}"), start
    assert not any(_owner().match(f"/{path}") for path in ("docs/ci.md", "tidemill/cli/app.py", "teams/a.py"))


def test_what_runs_with_cis_logins_has_an_owner():
    """The program of a stack, the policies, and what the commands of the workflows load. A release alone changes the
    version."""
    program = [path for cloud in CLOUDS for path in affected._imported(cloud)]
    loaded = """
        import importlib, sys
        for name in "affected check ci.github deploy drift orphans owners preview review.command".split():
            importlib.import_module(f"ops.{name}")
        print(*(each.__file__ for each in list(sys.modules.values()) if getattr(each, "__file__", None)), sep="\\n")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(loaded)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    ours = (Path(line) for line in done.stdout.splitlines() if line.startswith(f"{ROOT}/"))
    commands = [path.relative_to(ROOT).as_posix() for path in ours if ".venv" not in path.parts]
    assert {"ops/deploy.py", "localcloud/cloud.py"} <= {*commands}
    ran = {*program, *commands} - {"tidemill/version.py"}
    assert sorted(path for path in ran if not _owner().match(f"/{path}")) == []


def test_all_that_judges_a_stack_is_guarded():
    """What the policy pack imports decides as the pack itself does. A release alone changes the version."""
    rules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "policy").rglob("*.py")]
    judging = closure(rules, ("tidemill/clouds/local/", "tidemill/services/local/")) - {"tidemill/version.py"}
    starts = tuple(start for start, *_ in guardrails.GUARDS)
    assert sorted(path for path in judging if not path.startswith(starts)) == []
