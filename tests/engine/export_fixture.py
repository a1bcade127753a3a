"""Writes the demo stack's state as a fixture: `python -m tests.engine.export_fixture`.

Run it when a version is released. Later code is previewed on it, so that a release never replaces what a team has.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from localcloud.cloud import Cloud
from ops.project import ROOT
from tests.harness import Project

STACK = "demo-aws"
FIXTURE = Path(__file__).parent / "fixtures" / f"{STACK}.state.json"


def portable(state: dict[str, Any], forbidden: list[str]) -> str:
    """Render a state without what belongs to one machine or one moment.

    Raises:
        ValueError: Something of this machine, or a secret, would be in it.
    """
    deployment = state["deployment"]
    # The key that would decrypt secrets. There are none, which is checked below.
    deployment.pop("secrets_providers", None)
    deployment["manifest"] = {"time": "2000-01-01T00:00:00Z", "magic": "", "version": ""}
    for resource in deployment["resources"]:
        for passing in ("created", "modified", "sourcePosition", "stackTrace"):
            resource.pop(passing, None)
    text = json.dumps(state, indent=1, sort_keys=True) + "\n"
    found = [word for word in [*forbidden, '"ciphertext"'] if word in text]
    if found:
        raise ValueError(f"the state holds {', '.join(found)}, which must not be committed")
    return text


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tidemill-fixture-") as scratch:
        folder = Path(scratch, "project")
        folder.mkdir()
        with Cloud(Path(scratch, "state")) as cloud:
            project = Project(folder, cloud.env, STACK)
            project.up().ok()
            text = portable(project.export(), [scratch, str(ROOT), str(Path.home()), cloud.url, "127.0.0.1"])
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_text(text)
    print(f"wrote {FIXTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
