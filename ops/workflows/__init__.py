"""`python -m ops workflows`: what is wrong with, and what can be abused in, the workflows of GitHub Actions."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

from localcloud.engine import EngineError, run_go
from ops.project import ROOT

HERE = Path(__file__).parent
_FOLDER = ROOT / ".github" / "workflows"
_TIMEOUT_SECONDS = 120
_MODULE = re.compile(r"github\.com/rhysd/actionlint (v\S+)")


@click.command()
def workflows() -> None:
    """Check .github/ with actionlint (what GitHub would refuse) and zizmor (what somebody could abuse).

    Neither asks the network, once actionlint has been built. Exits 1 when one of them finds something.
    """
    try:
        lint = str(_actionlint())
    except EngineError as error:
        raise click.ClickException(str(error)) from None
    # Without shellcheck and pyflakes, which only some machines have: everybody sees the same.
    commands = [
        [lint, "-shellcheck=", "-pyflakes=", *map(str, sorted(_FOLDER.glob("*.yml")))],
        [
            str(Path(sys.executable).with_name("zizmor")),
            "--offline",
            "--quiet",
            "--config=.github/zizmor.yml",
            "--persona=pedantic",
            ".github",
        ],
    ]
    try:
        failed = [subprocess.run(command, cwd=ROOT, timeout=_TIMEOUT_SECONDS, check=False) for command in commands]
    except subprocess.TimeoutExpired as error:
        raise click.ClickException(f"{error.cmd[0]}: no end within {error.timeout:.0f} s, so it was ended") from None
    except FileNotFoundError as error:
        raise click.ClickException(f"{error.filename} is missing: run `make lint`, which installs it") from None
    sys.exit(1 if any(done.returncode for done in failed) else 0)


def _actionlint() -> Path:
    """The program, built from the Go module proxy once a version, into the user's cache folder.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    found = _MODULE.search((HERE / "go.mod").read_text())
    assert found
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = base / "tidemill" / "actionlint" / found[1] / "actionlint"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise EngineError("actionlint is built with Go, which is not on PATH: https://go.dev/dl")
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes never build at once; the second finds it built
        if not program.exists():
            environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off", "CGO_ENABLED": "0"}
            partial = program.with_suffix(".part")
            command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(partial)]
            command.append("github.com/rhysd/actionlint/cmd/actionlint")
            run_go("actionlint", command, HERE, environment, "building (about half a minute, once)")
            partial.rename(program)
    return program
