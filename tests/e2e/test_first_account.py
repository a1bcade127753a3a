"""localcloud answers every check for a real account as the design expects. The checks are there to ask a cloud."""

import subprocess
import sys

from ops.first_account.checks import CHECKS
from ops.project import ROOT
from tests.e2e.team import Team

SECONDS = 250


def test_localcloud_answers_as_expected(team: Team) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "ops", "first-account", "--stack", "demo-aws"],
        cwd=ROOT,
        env=team.project.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
    verdicts = [line.split(maxsplit=1)[1] for line in asked.stdout.splitlines()]
    wanted = ["ok" if check.probe else "by hand" for check in CHECKS if "aws" in check.clouds]
    assert [verdict.startswith(word) for verdict, word in zip(verdicts, wanted, strict=True)] == [True] * len(wanted)
