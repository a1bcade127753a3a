"""Records the engine's previews for the review's golden files: `python -m tests.ops.make_previews`.

Every scenario is a real run of the engine on localcloud: a stack is brought up, its file is changed, and the change is
previewed as by `ops preview --json`. Values that differ between runs (the engine's random suffixes, ids, folders) are
numbered, so that the same code gives the same file. With names it records only those scenarios. `--reviews` only
rewrites the reviews in tests/ops/golden from the recordings. tests/engine/test_review.py records one scenario
again, to tell when they are out of date.
"""

from __future__ import annotations

import datetime
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from components.config import from_file
from localcloud.cloud import Cloud, GcpCloud
from ops.engine import document
from ops.review.build import build
from ops.review.command import as_json
from ops.review.document import parse
from ops.review.markdown import render
from tests.harness import Project
from tests.ops.scenarios import BASES, Base, Config, Scenario, names
from tidemill.prices import Interruption, MachinePrice, ServicePrice, SpotRange

FOLDER = Path(__file__).parent / "previews"
GOLDEN = Path(__file__).parent / "golden"
AS_JSON = ("gcp-pool-removed", "more-capacity", "violated", "wider-access")
"""Scenarios whose reviews are kept as JSON too; the Markdown of all shows the same findings."""
TODAY = datetime.date(2026, 11, 21)


def record(base: Base, wanted: set[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Record the scenarios of one stack.

    Args:
        base: The stack.
        wanted: Names of scenarios; all when not given.

    Yields:
        Each scenario's name and its preview document.
    """
    with tempfile.TemporaryDirectory() as scratch:
        gcp = "gcp" in base.stack
        with (GcpCloud if gcp else Cloud)(Path(scratch, "state")) as cloud:
            folder = Path(scratch, "project")
            folder.mkdir()
            project = Project(folder, cloud.env, base.stack)
            with project.config() as config:
                if isinstance(cloud, GcpCloud):
                    config["gcp:project"] = cloud.project
                if base.first:
                    base.first(config)
            if base.up:
                project.up().ok()
            for scenario in base.scenarios:
                if wanted is None or scenario.name in wanted:
                    yield scenario.name, told_apart(_previewed(project, scenario), scratch)


def _previewed(project: Project, scenario: Scenario) -> dict[str, Any]:
    program = project.program(scenario.program) if scenario.program else nullcontext()
    with _changed(project, scenario.change), program:
        path = project.folder / "stacks" / f"Pulumi.{project.stack}.yaml"
        return document(project.stack, from_file(path), project.folder, project.env)


@contextmanager
def _changed(project: Project, change: Callable[[Config], None] | None) -> Iterator[None]:
    path = project.folder / "stacks" / f"Pulumi.{project.stack}.yaml"
    before = path.read_bytes()
    try:
        with project.config() as config:
            if change:
                change(config)
        yield
    finally:
        path.write_bytes(before)


# Values made up by the engine, localcloud and the clouds: suffixes of names, ids, times, folders.
_IDS = "sg|sgr|rt|rtb|rtbassoc|vpc|vpce|eni|igw|nat|lt|subnet|eipalloc"
_RANDOM = re.compile(rf"(?<=-)[0-9a-f]{{7}}(?![0-9a-zA-Z])|\b(?:{_IDS})-[0-9a-f]{{8,17}}\b")
_UNUSED = ("created", "modified", "aliases", "dependencies", "provider", "parent", "id", "outputs", "importID")


def told_apart(found: dict[str, Any], scratch: str) -> dict[str, Any]:
    """A preview document with made-up values numbered, its steps in order, and without unused parts."""
    preview = found["preview"] or {}
    preview["steps"] = sorted((_trimmed(step) for step in preview.get("steps", [])), key=lambda step: step["urn"])
    preview.pop("duration", None)
    folders = re.compile(re.escape(scratch) + r"[\w/.-]*/")
    warned = [d for d in preview.get("diagnostics", []) if "from $PATH" not in d["message"]]
    preview["diagnostics"] = [{**each, "message": folders.sub("", each["message"])} for each in warned]
    seen: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        kind, _, random = match[0].rpartition("-")
        return seen.setdefault(match[0], f"{kind}{'-' if kind else ''}{len(seen) + 1:0{len(random)}d}")

    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", json.dumps(found, ensure_ascii=False))
    return json.loads(_RANDOM.sub(numbered, text))


def _trimmed(step: dict[str, Any]) -> dict[str, Any]:
    trimmed = {key: value for key, value in step.items() if key != "provider"}
    for side in ("oldState", "newState"):
        if side in trimmed:
            trimmed[side] = {key: value for key, value in trimmed[side].items() if key not in _UNUSED}
    return trimmed


def write(name: str, found: Mapping[str, Any]) -> None:
    """Write one recording."""
    text = json.dumps(found, indent=0, ensure_ascii=False, sort_keys=True) + "\n"
    # Without a time in it, the same recording gives the same file.
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def load(name: str) -> str:
    """A recording, as `ops preview --json` would have written it."""
    return gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()).decode()


def review_of(name: str) -> tuple[str, str]:
    """A recording's review on a fixed day and at fixed prices: Markdown and JSON."""
    found = build([parse(load(name), name)], TODAY, TablePrices())
    return render(found), as_json(found)


class TablePrices:
    """Round prices; some are unknown."""

    def machine(self, cloud: str, region: str, type: str, *, gpus: int = 0) -> MachinePrice | None:  # noqa: A002
        """A dollar per machine of the known generations; Spot costs a quarter to a half of that."""
        if type.startswith(("m7", "c3d")):
            return None
        source = "tests"
        return MachinePrice(1.0, SpotRange(0.25, 0.5, TODAY, source), TODAY, source)

    def interruption(self, cloud: str, region: str, type: str) -> Interruption | None:  # noqa: A002
        """The seventh generation is often reclaimed, the sixth is not, and nothing is known of others."""
        low = {"c7i": 20, "m7i": 20, "c6i": 5, "m6i": 5}.get(type.partition(".")[0])
        return None if low is None else Interruption(low, low + 5, TODAY, "tests, in detail")

    def service(self, cloud: str, region: str, name: str) -> ServicePrice | None:
        """Half a dollar."""
        return None if name == "kms_key_month" else ServicePrice(0.5, TODAY, "tests")


def write_reviews() -> None:
    """Rewrite the golden files."""
    GOLDEN.mkdir(exist_ok=True)
    for name in names():
        markdown, as_text = review_of(name)
        (GOLDEN / f"{name}.md").write_text(markdown, encoding="utf-8")
        if name in AS_JSON:
            (GOLDEN / f"{name}.json").write_text(as_text, encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Record the named scenarios, or all; then write the reviews."""
    FOLDER.mkdir(exist_ok=True)
    chosen = set(arguments) - {"--reviews"} or set(names())
    if unknown := sorted(chosen - set(names())):
        sys.exit(f"{unknown[0]!r} is no scenario; there are {', '.join(names())}")
    for base in BASES if "--reviews" not in arguments else ():
        if chosen & {scenario.name for scenario in base.scenarios}:
            for name, content in record(base, chosen):
                write(name, content)
                print(name, content["exit_code"], (content["preview"] or {}).get("changeSummary"), flush=True)
    write_reviews()


if __name__ == "__main__":
    main(sys.argv[1:])
