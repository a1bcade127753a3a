"""localcloud answers every check for a real account as the design expects. The checks themselves are for a cloud."""

from ops.first_account.checks import CHECKS
from ops.project import ROOT
from tests.e2e.team import TIMEOUT_SECONDS, Team
from tests.harness import typed

IN_THE_PROJECT = """
import sys
from pathlib import Path
from ops import project
project.ROOT, project.STACKS = Path.cwd(), Path.cwd() / "stacks"
from ops.__main__ import main
main(sys.argv[1:])
"""
"""As `python -m ops`, on the stack file that the team was brought up from."""


def test_localcloud_answers_as_expected(team: Team) -> None:
    words = ("-c", IN_THE_PROJECT, "first-account", "--stack", "demo-aws")
    env = {**team.project.env, "PYTHONPATH": str(ROOT)}
    code, said = typed(*words, cwd=team.project.folder, env=env, timeout=TIMEOUT_SECONDS)
    assert code == 0, said
    verdicts = [line.split(maxsplit=1)[1] for line in said.splitlines()]
    wanted = ["ok" if check.probe else "by hand" for check in CHECKS if "aws" in check.clouds]
    assert [verdict.startswith(word) for verdict, word in zip(verdicts, wanted, strict=True)] == [True] * len(wanted)
