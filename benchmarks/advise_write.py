"""What `ops advise` costs, and whether its edits of stack files keep what is in them.

Every queue of the committed stacks is first narrowed to one family, so that there is something to advise.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from benchmarks.figures import figure
from components.config import ConfigError
from ops import project, stack_files
from ops.advise.edit import edited
from ops.advise.figures import Book
from ops.advise.rules import advise
from ops.advise.standing import QUEUES, ask, standing, subject
from tests.slow_capacity import SlowAws
from tidemill.advice.aws import AwsSource
from tidemill.advice.cache import Cache

_COMMENT = re.compile(r"#.*$", re.MULTILINE)


def figures(delay_seconds: float) -> None:
    """Measure, against an AWS that takes so long per call."""
    requests, seconds = _asked(delay_seconds)
    figure("advise-queue-requests", requests, "requests", 12)
    figure("advise-queue-seconds", seconds, "s", 3)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, patch.object(project, "STACKS", Path(folder)):
        changed, lost, again = _written(Path(folder))
    print(f"queues that were changed: {changed}")
    figure("advise-queues-changed", changed, "queues", 8, higher_is_better=True)
    figure("advise-write-lost-comments", lost, "comments", 0)
    figure("advise-write-second-changes", again, "changes", 0)


def _asked(delay_seconds: float) -> tuple[int, float]:
    """Requests and seconds of the advice on one queue."""
    aws = SlowAws(delay_seconds)
    about = subject("vision-prod", "cpu")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        source = AwsSource(about.region, "123456789012", aws, cache=Cache(Path(folder)))  # type: ignore[arg-type]
        start = time.perf_counter()
        book = ask(about, source)
        assert advise(standing(about, book))
        assert book.live.scores
        return aws.calls.total(), time.perf_counter() - start


def _written(folder: Path) -> tuple[int, int, int]:
    """Queues that advice changed, comments that this lost, and changes that a second run would make."""
    changed = lost = again = 0
    for original in sorted((project.ROOT / "stacks").glob("Pulumi.*.yaml")):
        path = folder / original.name
        path.write_bytes(original.read_bytes())
        stack = original.stem.removeprefix("Pulumi.")
        for queue in project.read_config(stack).queues:
            _narrow(path, queue)
            before, after = _advised(stack, queue)
            stack_files.write(path, before, after)
            changed += before != after
            again += len(set(_advised(stack, queue))) - 1
        kept = Counter(_COMMENT.findall(path.read_text(encoding="utf-8")))
        lost += (Counter(_COMMENT.findall(original.read_text(encoding="utf-8"))) - kept).total()
    return changed, lost, again


def _narrow(path: Path, queue: str) -> None:
    families = project.read_config(path.stem.removeprefix("Pulumi.")).queues[queue].machines.families
    steps = [QUEUES, queue, "machines", "families"]
    for family in families:
        try:
            texts = stack_files.edited(path, lambda config, one=family: stack_files.assign(config, steps, [one]))
            stack_files.write(path, *texts)
        except ConfigError:
            continue  # no size of it that the queue allows fits an item
        return


def _advised(stack: str, queue: str) -> tuple[str, str]:
    about = subject(stack, queue)
    return edited(about, advise(standing(about, Book(about.config.cloud, about.region))).changes)
