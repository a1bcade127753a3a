"""Writes the demo stacks' states as fixtures: `python -m tests.engine.export_fixture [STACK ...]`, both by default.

Run it when a version is released. Later code is previewed on them, so that a release never replaces what a team has.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from localcloud.cloud import Cloud, GcpCloud
from ops.project import ROOT
from tests.engine.google import Google
from tests.harness import Project

STACK = "demo-aws"
GCP_STACK = "demo-gcp"
ELSEWHERE = "https://localcloud.example"
"""What stands for the address that localcloud had."""
_SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Marks a special value in a state: https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/sig/sig.go"""


def fixture(stack: str) -> Path:
    """The file of a stack's state."""
    return Path(__file__).parent / "fixtures" / f"{stack}.state.json"


def portable(state: dict[str, Any], url: str, forbidden: list[str]) -> str:
    """Render a state without what belongs to one machine or one moment.

    Args:
        state: As exported with its secrets shown. Google's SDK marks labels and the content of objects as secret;
            none of them is, and an import could not encrypt them, so they are written as plain values.
        url: Where localcloud was.
        forbidden: What must not be in it.

    Raises:
        ValueError: Something of this machine, or an encrypted secret, would be in it.
    """
    state = _plain(state)
    deployment = state["deployment"]
    # The key that would decrypt secrets. There are none, which is checked below.
    deployment.pop("secrets_providers", None)
    deployment["manifest"] = {"time": "2000-01-01T00:00:00Z", "magic": "", "version": ""}
    for resource in deployment["resources"]:
        for passing in ("created", "modified", "sourcePosition", "stackTrace"):
            resource.pop(passing, None)
    text = json.dumps(state, indent=1, sort_keys=True).replace(url, ELSEWHERE) + "\n"
    found = [word for word in [*forbidden, '"ciphertext"'] if word in text]
    if found:
        raise ValueError(f"the state holds {', '.join(found)}, which must not be committed")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if "plaintext" in value and _SIGNATURE in value:
            return json.loads(value["plaintext"])
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def prepare(cloud: Cloud | GcpCloud) -> None:
    """Make what the demo has before its stack."""
    if isinstance(cloud, GcpCloud):
        google = Google(cloud)
        google.make_bucket("tidemill-demo-photos")
        google.make_account("photographer")


def main(stacks: list[str]) -> int:
    """Write the fixtures of the named stacks, or of both."""
    for stack in stacks or [STACK, GCP_STACK]:
        with tempfile.TemporaryDirectory(prefix="tidemill-fixture-") as scratch:
            folder = Path(scratch, "project")
            folder.mkdir()
            with (GcpCloud if stack == GCP_STACK else Cloud)(Path(scratch, "state")) as cloud:
                prepare(cloud)
                project = Project(folder, cloud.env, stack)
                project.up().ok()
                state = json.loads(project.run("stack", "export", "--show-secrets").ok().out)
                text = portable(state, cloud.url, [scratch, str(ROOT), str(Path.home()), "127.0.0.1"])
        path = fixture(stack)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
