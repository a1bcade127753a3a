"""Writes states of stacks as fixtures: `python -m tests.engine.export_fixture VERSION [STACK ...]`.

Run it when a version is released. Later code is previewed on these states, so that a release never replaces a team's
resources. An existing version is never overwritten: that would hide later changes.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from localcloud.cloud import Cloud, GcpCloud
from ops.project import ROOT, stack_file
from tests.engine.google import Google
from tests.harness import Project

STACKS = ("demo-aws", "demo-gcp", "vision-prod", "vision-gcp-prod")
"""The smallest stack of each cloud and the largest one."""
RETIRED = ("identity-worker-metricwriter",)
"""Name endings that a release may delete: a grant to write metrics, which no machine uses."""

FOLDER = Path(__file__).parent / "fixtures"
ELSEWHERE = "https://localcloud.example"
"""Replaces localcloud's address."""
_SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Marks a special value in a state: https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/sig/sig.go"""


def states() -> list[Path]:
    """The states of every version, as ``<version>/<stack>.state.json.gz``, with the stack file of each."""
    return sorted(FOLDER.glob("*/*.state.json.gz"))


def text(state: Path) -> bytes:
    """A state as the engine imports it."""
    return gzip.decompress(state.read_bytes())


def settings(state: Path) -> dict[str, Any]:
    """The stack file's settings at the time of a state, by full keys."""
    return yaml.safe_load(state.with_name(state.name.replace(".state.json.gz", ".yaml")).read_text())["config"]


def portable(state: dict[str, Any], url: str, forbidden: list[str]) -> str:
    """Render a state without anything specific to one machine or one moment.

    Args:
        state: As exported with its secrets shown. Google's SDK marks labels and object contents as secret. None of
            them is, and an import could not encrypt them, so they are written as plain values.
        url: localcloud's address.
        forbidden: Texts that must not occur in it.

    Raises:
        ValueError: Something of this machine, or an encrypted secret, would be in it.
    """
    state = _plain(state)
    deployment = state["deployment"]
    # The key that would decrypt secrets. There are none; a check below ensures that.
    deployment.pop("secrets_providers", None)
    deployment["manifest"] = {"time": "2000-01-01T00:00:00Z", "magic": "", "version": ""}
    for resource in deployment["resources"]:
        for passing in ("created", "modified", "sourcePosition", "stackTrace"):
            resource.pop(passing, None)
    resources = ",\n".join(json.dumps(each, sort_keys=True) for each in deployment.pop("resources"))
    state["deployment"] = deployment | {"resources": []}
    text = json.dumps(state, sort_keys=True).replace('"resources": []', f'"resources": [\n{resources}\n]') + "\n"
    text = text.replace(url, ELSEWHERE)
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
    """Make what the stacks require to exist."""
    if isinstance(cloud, GcpCloud):
        google = Google(cloud)
        for bucket in ("tidemill-demo-photos", "raw-images", "refs", "features"):
            google.make_bucket(bucket)
        google.make_secret("hf-token")
        google.make_account("photographer")


def write(version: str, stack: str) -> Path:
    """Bring a stack up on an empty localcloud and write its state and its stack file."""
    path = FOLDER / version / f"{stack}.state.json.gz"
    if path.exists():
        raise SystemExit(f"{path.relative_to(ROOT)} is there already: name a version that is not, such as the next one")
    on_gcp = yaml.safe_load(stack_file(stack).read_text())["config"].get("tidemill:cloud") == "gcp"
    with tempfile.TemporaryDirectory(prefix="tidemill-fixture-") as scratch:
        folder = Path(scratch, "project")
        folder.mkdir()
        with (GcpCloud if on_gcp else Cloud)(Path(scratch, "state")) as cloud:
            prepare(cloud)
            project = Project(folder, cloud.env, stack)
            if isinstance(cloud, GcpCloud):
                with project.config() as config:
                    # The secrets of a stack belong to its project.
                    moved = json.dumps(config).replace(config["gcp:project"], cloud.project)
                    config.update(json.loads(moved))
            with project.config() as config:
                used = yaml.safe_dump({"config": dict(config)}, sort_keys=False)
            project.up().ok()
            state = json.loads(project.run("stack", "export", "--show-secrets").ok().out)
            written = portable(state, cloud.url, [scratch, str(ROOT), str(Path.home()), "127.0.0.1"])
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a timestamp the same state gives the same bytes.
    path.write_bytes(gzip.compress(written.encode(), mtime=0))
    path.with_name(f"{stack}.yaml").write_text(used)
    return path


def main(version: str, *stacks: str) -> int:
    """Write the fixtures of a version."""
    for stack in stacks or STACKS:
        print(f"wrote {write(version, stack).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit((__doc__ or "").partition("\n")[0])
    sys.exit(main(*sys.argv[1:]))
