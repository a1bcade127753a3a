"""A pull request that edits the stack of an account: reviewed on localcloud as stacks of teams are."""

import json

from tests.engine.test_review import copy_code, git
from tests.harness import typed

FILE = "config:\n  aws:region: us-west-2\n  tidemill-bootstrap:ci: {{repository: {}, environments: [{}]}}\n"


def test_an_edit_of_an_accounts_stack_is_reviewed_on_its_base(tmp_path):
    copy_code(tmp_path)
    path = tmp_path / "bootstrap" / "Pulumi.account.yaml"
    path.write_text(FILE.format("example/infra", "dev"))
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    git(tmp_path, "switch", "-qc", "change")
    path.write_text(FILE.format("somebody/else", "dev, prod"))
    git(tmp_path, "commit", "-qam", "change")
    target = tmp_path / ".venv.json"
    options = ("--stack", "bootstrap/account", "--base", "main", "--json", str(target))
    code, output = typed("-m", "ops", "review", *options, cwd=tmp_path)
    assert code in (0, 5), output
    found = json.loads(target.read_text())
    assert [each["resource"] for each in found["guardrails"]] == ["bootstrap/Pulumi.account.yaml"]
    (stack,) = found["stacks"]
    assert (stack["stack"], stack["environment"], stack["failed"]) == ("bootstrap/account", "account", False)
    changed = {change["name"]: change["op"] for change in stack["changes"]}
    assert changed["tidemill-ci-preview"] == "update", "another repository's tokens would be admitted"
    assert changed["tidemill-ci-deploy-prod"] == "create"
    assert "delete" not in changed.values()
    told = [each for each in stack["findings"] if each["resource"] == "tidemill-ci-preview"]
    assert any("somebody/else" in line for each in told for line in [each["title"], *each["details"]]), told
    assert path.read_text() == FILE.format("somebody/else", "dev, prod"), "a review writes no stack file"
