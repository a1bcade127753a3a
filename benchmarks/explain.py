"""What `tidemill explain` costs, and how many of its causes localcloud can show.

The requests and seconds are those of a job of 1,000 chunks that waits on an emulated Batch, where each call takes 60 ms
longer than here. The causes are counted while the tests that reproduce them run: each headline of a job that was looked
at through a real backend counts once. AWS's own delays are not measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.figures import figure
from benchmarks.headlines import SEEN
from localcloud.aws import gaps
from tests.localcloud.harness import account
from tests.localcloud.test_explain_aws import Team
from tidemill.client.explaining import read_facts
from tidemill.client.looking import observe
from tidemill.explain.causes import CAUSES
from tidemill.explain.judge import explain

CHUNKS = 1000
DELAY_SECONDS = 0.06
TESTS = ("tests/localcloud/test_explain_aws.py", "tests/unit/test_explain_gcp.py", "tests/unit/test_explain.py")
TIMEOUT_SECONDS = 600


def main() -> None:
    """Print the figures."""
    figure("explain-causes-listed", len(CAUSES), "causes", 42, higher_is_better=True)
    codes = reproduced()
    print(f"headlines: {' '.join(sorted(codes))}")
    print(f"never the headline: {' '.join(cause.code for cause in CAUSES if cause.code not in codes)}")
    figure("explain-causes-reproduced", len(codes), "causes", 34, higher_is_better=True)
    calls, seconds = look()
    print(f"calls: {', '.join(calls)}")
    figure("explain-cloud-requests", len(calls), "requests", 12)
    figure("explain-seconds", seconds, "s", 3)


def reproduced() -> set[str]:
    """Return the codes of all headlines that the tests have seen."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        note = Path(folder) / "headlines"
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "benchmarks.headlines", *TESTS]
        done = subprocess.run(
            command,
            env=os.environ | {SEEN: str(note)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"the tests of explain fail:\n{done.stdout[-4000:]}")
        return set(note.read_text().split())


def look() -> tuple[list[str], float]:
    """Return the cloud's operations and the seconds of an `explain` whose job waits, the look at its status excluded
    from the operations and included in the seconds."""
    with account(namespaces=False, stockout=("c6i.xlarge",), submit_rate=1000) as cloud:
        gaps.fill()
        with patch.dict("os.environ", {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{cloud.port}"}):
            team, calls = Team(cloud), list[str]()

            def called(model: Any, **_: Any) -> None:
                calls.append(model.name)
                time.sleep(DELAY_SECONDS)

            team.session.events.register("before-call", called)
            job = team.submit(team.queue(), "sleep", "600", chunks=CHUNKS)
            began = time.perf_counter()
            seen = observe(job._watched.site, job._ledger, job.spec, consumption=False)
            before = len(calls)
            found = explain(read_facts(seen))
            took = time.perf_counter() - began
            assert found.causes
            return calls[before:], took
