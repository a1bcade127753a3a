"""The table of docs/clouds.md is complete, and its numbers match the code. It cannot see missing rows."""

from pathlib import Path

import pytest

from components.services.pubsub import queue_topic
from tidemill.services.batch import SERVICE as BATCH
from tidemill.services.pubsub import SERVICE as PUBSUB
from tidemill.services.pubsub.backend import IN_FLIGHT
from tidemill.services.pubsub.backlog import EMPTY_SECONDS
from tidemill.worker.chunks.held_chunks import CANCEL_SECONDS, CANCEL_SECONDS_LOCAL

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "clouds.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]
TABLE = {row[0]: row[1:] for row in ROWS[1:]}


def test_every_row_says_something_of_every_cloud():
    assert ROWS[0][1:] == ["this machine (`tidemill run`)", "AWS (Batch)", "GCP (Pub/Sub)"]
    assert all(len(row) == 4 and row[2] and row[3] for row in ROWS)
    assert len(TABLE) == len(ROWS) - 1 > 15


@pytest.mark.parametrize(
    ("row", "cloud", "words"),
    [
        ("sent at once", 1, f"{BATCH.array_chunks:,}"),
        ("sent at once", 2, f"{PUBSUB.array_chunks:,}, {'four' if IN_FLIGHT == 4 else IN_FLIGHT} side by side"),
        ("CPUs of an item", 1, "whole" if BATCH.whole_cpus else "fractions"),
        ("CPUs of an item", 2, "whole" if PUBSUB.whole_cpus else "fractions"),
        ("a chunk is given up", 2, f"{queue_topic.DELIVERIES} deliveries"),
        ("the queue forgets", 2, f"{queue_topic.KEPT_SECONDS // 86_400} days"),
        ("a lost chunk is noticed", 2, "three minutes" if EMPTY_SECONDS == 180 else f"{EMPTY_SECONDS} s"),
        ("cancel", 0, f"within {CANCEL_SECONDS_LOCAL:.0f} s"),
        ("cancel", 2, f"within {CANCEL_SECONDS:.0f} s"),
    ],
)
def test_the_numbers_are_those_of_the_code(row, cloud, words):
    assert words in TABLE[row if row in TABLE else f"`{row}`"][cloud]
