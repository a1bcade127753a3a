"""Each row of the second reader's table: the review names what the reader expects, at least as severely.

The previews are those of `preview.py`, without the engine.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops import check
from ops.project import ROOT
from ops.review import guardrails
from ops.review.build import build
from ops.review.document import parse
from ops.review.models import SEVERITIES, Finding
from tests.components.stacks import settings
from tests.ops.edits.preview import document
from tests.ops.edits.test_steps import removed as gone

HERE = Path(__file__).parent
ROWS = {row["id"]: row for row in json.loads((HERE / "table.json").read_text())}
EDITS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "edits.yaml").read_text())
REFUSED, NOTHING = "refused", "nothing"
_CI = {"repository": "example/infra", "environments": ["dev", "prod"], "buckets": ["data-*"]}
_BOOTSTRAP = {"tidemill-bootstrap:ci": {key: value for key, value in _CI.items() if key != "buckets"}}
_NETWORK = {
    "tidemill-shared:network": {"egress": "nat"},
    "tidemill-shared:registry": {"repositories": ["tidemill-worker"]},
}
HOMES = {
    ("bootstrap", "aws"): {"tidemill-bootstrap:cloud": "aws", "tidemill-bootstrap:ci": _CI, "aws:region": "us-west-2"},
    ("bootstrap", "gcp"): {
        "tidemill-bootstrap:cloud": "gcp",
        **_BOOTSTRAP,
        "gcp:project": "p",
        "gcp:region": "us-central1",
    },
    ("shared", "aws"): {"tidemill-shared:cloud": "aws", **_NETWORK, "aws:region": "us-west-2"},
    ("shared", "gcp"): {"tidemill-shared:cloud": "gcp", **_NETWORK, "gcp:project": "p", "gcp:region": "us-central1"},
}
"""Settings of the stacks beside the teams', by folder and cloud."""


@pytest.mark.parametrize("row", EDITS)
def test_an_edit_is_told_as_a_careful_reader_expects(row, tmp_path):
    edit = EDITS[row]
    wanted = edit.get("instead", {}).get("severity", ROWS[row]["severity"])
    refused, findings = outcome(row, tmp_path)
    told = "\n".join(f"{f.severity} {f.kind} {f.resource}: {f.title} {f.details[:3]}" for f in findings)
    said = "\n".join(refused)
    if never := edit.get("never"):
        assert never not in said + told, "a secret is shown"
    if wanted == NOTHING:
        assert not refused
        assert [f for f in findings if f.severity != "low"] == [], told
        return
    if refused:
        assert re.search(edit["says"], said, re.IGNORECASE), said
        return
    assert wanted != REFUSED, told
    bad = SEVERITIES[: SEVERITIES.index(wanted) + 1]
    heard = [f for f in findings if f.severity in bad and re.search(edit["says"], _text(f), re.IGNORECASE)]
    assert heard, f"{ROWS[row]['expected']}\n{told}"


def test_every_row_is_made_but_one():
    # CMP-30 takes away a resource that others depend on, which an edit of functions cannot do here.
    assert {row for row in ROWS if row not in EDITS} == {"CMP-30"}


def outcome(row: str, folder: Path) -> tuple[list[str], list[Finding]]:  # noqa: PLR0912
    """Return the faults that `ops check` refuses, and otherwise the review's findings."""
    edit = EDITS[row]
    (named,) = re.findall(r"stacks/Pulumi\.([\w-]+)\.yaml", ROWS[row]["file"])[:1] or ["vision-prod"]
    if edit.get("removed"):
        return [], gone(57)
    home = edit.get("home", "")
    named = edit.get("stack", "vision-prod" if "new" in edit else named)
    before = copy.deepcopy(HOMES[home, edit.get("cloud", "aws")]) if home else settings(named)
    for path, value in edit.get("base", {}).items():
        _put(before, path, value)
    after = copy.deepcopy(before)
    for path, value in edit.get("set", {}).items():
        _put(after, path, value, null=edit.get("set_null", False))
    if "rename" in edit:
        old, new = edit["rename"]
        _put(after, new, _pop(after, old))
    if edit.get("reorder"):
        after = dict(reversed(after.items()))
    named = edit.get("new", named)
    path = f"{home or 'stacks'}/Pulumi.{'account' if home == 'bootstrap' else 'prod' if home else named}.yaml"
    sources = [tuple(each) for each in edit.get("source", [])]
    was, now = (yaml.safe_dump({**top, "config": each}, sort_keys=False, allow_unicode=True)
                for top, each in zip(edit.get("top", [{}, {}]), (before, after), strict=True))  # fmt: skip
    texts: dict[str, tuple[str | None, str | None]] = {path: (was, now)}
    if "new" in edit:
        texts[path] = (None, texts[path][1])
    for file, old, new in sources:
        begun, text = texts.get(file, (_committed(file),) * 2)
        assert text is not None
        assert old in text, f"{file} has no {old!r}: correct the edit"
        texts[file] = (begun, text.replace(old, new))
    for file, content in edit.get("files", {}).items():
        texts[file] = (_committed(file), content)
    for file, more in edit.get("prefix", {}).items():
        texts[file] = (_committed(file), more + (_committed(file) or ""))
    for file, given in edit.get("had", {}).items():
        texts[file] = (given, edit["files"][file])
    for file, changes in edit.get("edit_json", {}).items():
        pack = json.loads(_committed(file) or "{}")
        pack = {key: value for key, value in (pack | changes).items() if value is not None}
        texts[file] = (_committed(file), json.dumps(pack))
    guarded = list(guardrails.findings(texts, lambda asked, was: _read(texts, asked, was)))
    stack_file = folder / f"Pulumi.{named}.yaml"
    stack_file.write_text(texts[path][1] or "")
    if "raw" in edit:
        stack_file.write_text((ROOT / path).read_text().replace(*edit["raw"]))
    others = []
    if "copy" in edit:
        shutil.copy(stack_file, stack_file.with_name(f"Pulumi.{edit['copy']}.yaml"))
        stack_file, others = stack_file.with_name(f"Pulumi.{edit['copy']}.yaml"), [stack_file]
    if not home and (faults := check.problems([stack_file], others)):
        return faults, []
    rooms = ("components/", "tidemill/", "shared/", "bootstrap/")
    programs = [each for each in sources if each[0].startswith(rooms) and each[0].endswith(".py")]
    if before == after and not programs:
        return [], guarded
    found = document(named, None if "new" in edit else _dated(before), _dated(after), programs, home)
    (reviewed,) = build([parse(json.dumps(found, default=str), row)], guardrails=guarded).stacks
    told = list(reviewed.findings)
    if not found["preview"]:
        # The program refuses it: the preview fails, which is critical, with this text.
        return found["errors"], []
    return [], [*guarded, *told]


def _read(texts: dict[str, tuple[str | None, str | None]], asked: str, before: bool) -> str | None:
    if asked in texts:
        return texts[asked][not before]
    return _committed(asked)


@cache
def _committed(path: str) -> str | None:
    file = ROOT / path
    return file.read_text(errors="replace") if file.is_file() else None


def _text(finding: Finding) -> str:
    return " ".join((finding.resource, finding.title, *finding.details))


def _steps(path: str) -> list[str | int]:
    if match := re.match(r"(?:aws|gcp|tidemill-\w+):\w+", path):
        return [
            match[0],
            *(int(each) if each.isdigit() else each for each in re.findall(r"[^.\[\]]+", path[match.end() :])),
        ]
    first, *rest = re.findall(r"[^.\[\]]+", path)
    return [f"tidemill:{first}", *(int(each) if each.isdigit() else each for each in rest)]


def _put(config: Any, path: str, value: Any, *, null: bool = False) -> None:
    *steps, last = _steps(path)
    for step in steps:
        config = config.setdefault(step, {}) if isinstance(config, dict) else config[step]
    if value is None and not null:
        config.pop(last, None)
    else:
        config[last] = _day(copy.deepcopy(value))


def _pop(config: Any, path: str) -> Any:
    *steps, last = _steps(path)
    for step in steps:
        config = config[step]
    return config.pop(last)


def _day(value: Any) -> Any:
    """A value with days from today, such as `+30d`, as dates."""
    if isinstance(value, dict):
        return {key: _day(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_day(each) for each in value]
    if isinstance(value, str) and re.fullmatch(r"\+\d+d", value):
        return datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=int(value[1:-1]))
    return value


def _dated(config: dict[str, Any]) -> dict[str, Any]:
    """A config as the engine hands it over: dates are text."""
    return json.loads(json.dumps(config, default=str))
