"""Other people's tools that benchmarks compare with: each is built or installed once, into the user's cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from localcloud.engine.go import build, cache

INSTALL_SECONDS = 600
S5CMD_SOURCES = Path(__file__).parent / "s5cmd"
RCLONE_SOURCES = Path(__file__).parent / "rclone"


def s5cmd() -> Path:
    """Return s5cmd, built from the Go module proxy in the version of its go.mod.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    return build("s5cmd", S5CMD_SOURCES, "a minute", ["github.com/peak/s5cmd/v2"]) / "s5cmd"


def rclone() -> Path:
    """Return rclone with its S3 and local backends, built like s5cmd.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    return build("rclone", RCLONE_SOURCES, "a few minutes") / "rclone"


def rclone_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which rclone's remote `store:` is the store that an AWS SDK finds with these."""
    remote = {"TYPE": "s3", "PROVIDER": "Other", "ENV_AUTH": "true", "ENDPOINT": env["AWS_ENDPOINT_URL"]}
    named = {f"RCLONE_CONFIG_STORE_{key}": value for key, value in {**remote, "REGION": env["AWS_REGION"]}.items()}
    # Over plain HTTP, as here, the AWS SDK of rclone sends no further checksums.
    plain = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "RCLONE_CONFIG": "/dev/null"}
    return {**env, **named, **plain, "AWS_EC2_METADATA_DISABLED": "true"}


def s5cmd_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which s5cmd and the AWS CLI find the store that an AWS SDK finds with these."""
    also = {"S3_ENDPOINT_URL": env["AWS_ENDPOINT_URL"], "AWS_DEFAULT_REGION": env["AWS_REGION"]}
    return {**env, **also, "AWS_EC2_METADATA_DISABLED": "true"}


def compiled() -> dict[str, str]:
    """Return variables with which Python keeps our modules compiled, as an installation keeps those of other tools.
    Without that, each start of a checkout whose files have changed pays for compiling them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def installed(package: str) -> Path | None:
    """Return the folder of programs of a virtual environment with a package of PyPI, or None if it cannot be
    installed."""
    home = cache() / "bench-venv" / package
    programs = home / "bin"
    if (home / "whole").exists():
        return programs
    print(f"installing {package} into {home}", flush=True)
    steps = [[sys.executable, "-m", "venv", "--clear", str(home)]]
    steps.append([str(programs / "python"), "-m", "pip", "install", "--quiet", package])
    for step in steps:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ended = subprocess.run(
            step, stdin=subprocess.DEVNULL, env=environment, timeout=INSTALL_SECONDS, check=False
        ).returncode
        if ended:
            return None
    (home / "whole").touch()
    return programs


if __name__ == "__main__":
    print(s5cmd())
