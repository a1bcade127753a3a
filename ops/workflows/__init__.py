"""`python -m ops workflows`: errors and security problems in the GitHub Actions workflows, and in those to copy."""

import subprocess
import sys
from pathlib import Path

import click

from localcloud.engine.go import EngineError, build
from ops.project import ROOT

HERE = Path(__file__).parent
_FOLDER = ROOT / ".github" / "workflows"
_TO_COPY = ROOT / "examples" / "github"
_TIMEOUT_SECONDS = 120
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint"


@click.command()
def workflows() -> None:
    """Check .github/ and examples/github/ with actionlint (what GitHub refuses) and zizmor (what an attacker abuses).

    Both work offline once actionlint is built. Exits 1 if either finds a problem.
    """
    try:
        lint = str(build("actionlint", HERE, "half a minute", [ACTIONLINT]) / "actionlint")
    except EngineError as error:
        raise click.ClickException(str(error)) from None
    # Without shellcheck and pyflakes, which only some machines have, the result is the same everywhere.
    commands = [
        [lint, "-shellcheck=", "-pyflakes=", *map(str, [*files(_FOLDER), *files(_TO_COPY)])],
        [
            str(Path(sys.executable).with_name("zizmor")),
            "--offline",
            "--quiet",
            "--config=.github/zizmor.yml",
            "--persona=pedantic",
            ".github",
            *map(str, files(_TO_COPY)),
        ],
    ]
    try:
        failed = [subprocess.run(command, cwd=ROOT, timeout=_TIMEOUT_SECONDS, check=False) for command in commands]
    except subprocess.TimeoutExpired as error:
        raise click.ClickException(f"{error.cmd[0]}: not finished after {error.timeout:.0f} s; stopped") from None
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename} is missing: run `make lint`, which installs it") from None
    sys.exit(1 if any(done.returncode for done in failed) else 0)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yml"))
