"""The submitter, in its own process so that it can be killed: `python -m tests.chaos.client JOB-FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.chaos.batch import QueueFolder
from tests.chaos.bucket import NAME
from tests.unit.client_fakes import descriptor, queue
from tidemill.client import Pipeline
from tidemill.client.job import Job
from tidemill.descriptor import SPEC_VERSION
from tidemill.store import Store


def open_pipeline(folder: Path) -> Pipeline:
    """The pipeline of a chaos run, whose queue is a folder. It is AWS's, as a local one never loses deliveries."""
    uri = f"s3://{NAME}"
    return Pipeline(descriptor(uri, {"cpu": queue()}, max_spec=SPEC_VERSION), Store.open(uri), QueueFolder(folder))


def submit(folder: Path, asked: dict[str, Any]) -> Job:
    items = [f"item-{index}" for index in range(asked["items"])]
    # There is no account in which images could be looked up.
    with patch("tidemill.client.site.open_checks", return_value=[]):
        return open_pipeline(folder).submit(
            asked["command"],
            items,
            function=asked["function"],
            name="chaos",
            chunk_size=asked["chunk_size"],
            code=asked["code"],
            slots=asked["slots"],
            attempts=2,
            timeout_seconds=600,
        )


if __name__ == "__main__":
    order = json.loads(Path(sys.argv[1]).read_text())
    print(submit(Path(order["folder"]), order).id)
