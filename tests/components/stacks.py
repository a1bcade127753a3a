"""The committed stacks and a small one, run under the mocks."""

from __future__ import annotations

import json
import runpy
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from tests.components.recording import Recorder, run_with

ROOT = Path(__file__).resolve().parents[2]
STACKS = sorted(path.stem.removeprefix("Pulumi.") for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))
GCP_STACKS = [name for name in STACKS if "gcp" in name]
AWS_STACKS = [name for name in STACKS if name not in GCP_STACKS]
IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"


def settings(stack: str) -> dict[str, Any]:
    """What a stack file sets, by its full keys."""
    return yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]


def run_stack(stack: str, *, preview: bool = False, **changes: Any) -> Recorder:
    """Run the program of a committed stack; changes are `tidemill:` keys and their values.

    Without changes, the program runs once for all tests: read the result only.
    """
    if not changes:
        return _unchanged(stack, preview)
    values = settings(stack) | {f"tidemill:{name}": value for name, value in changes.items()}
    return run_program(values, preview=preview)


@cache
def _unchanged(stack: str, preview: bool) -> Recorder:
    return run_program(settings(stack), preview=preview)


def run_program(values: dict[str, Any], *, preview: bool = False, recorder: Recorder | None = None) -> Recorder:
    """Run the program with a config, by full keys, encoded as the engine hands it over."""
    config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    program = partial(runpy.run_path, str(ROOT / "__main__.py"), run_name="__main__")
    return run_with(recorder or Recorder(), program, preview=preview, config=config)
