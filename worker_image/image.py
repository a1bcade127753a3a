"""The worker's image: the tree at /tidemill, and an entry that copies it to a folder of a container's machine."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import NamedTuple

from worker_image import tools, tree
from worker_image.oci import Layout
from worker_image.tools import BuildError

HOME = "/tidemill"
NAME = "tidemill-worker"


class BuildResult(NamedTuple):
    """The result of a build."""

    tree: Path
    layout: Path
    """An OCI image layout."""
    digest: str
    size: int
    """Bytes that a machine downloads."""


def build(folder: Path, architecture: str | None = None) -> BuildResult:
    """Build the tree and the image in a folder.

    Args:
        architecture: As OCI names it: ``amd64``, ``arm64``; this machine's if left out.

    Raises:
        BuildError: The build needs something that this machine does not have.
    """
    architecture = architecture or tools.architecture()
    tree.build(folder / "tree", architecture)
    layout = Layout(folder / "image")
    config = {
        "Entrypoint": [f"{HOME}/{NAME}"],
        "Cmd": ["copy", HOME],
        "WorkingDir": "/",
        "Labels": {"org.opencontainers.image.title": NAME, "org.opencontainers.image.version": version()},
    }
    digest = layout.write({HOME.lstrip("/"): folder / "tree"}, architecture, config)
    return BuildResult(folder / "tree", layout.folder, digest, layout.size)


def start_seconds(tree: Path) -> float:
    """How long a worker takes to read its settings; with an empty environment it ends there."""
    started = time.monotonic()
    done = tools.run([str(tree / NAME), "start"], env={})
    if "TIDEMILL_STORE" not in done.stdout:
        raise BuildError(f"The built worker does not start:\n{done.stdout}{done.stderr}")
    return time.monotonic() - started


def version() -> str:
    """The version of this checkout's worker."""
    match = re.search(r'^__version__ = "(.+)"', (tree.ROOT / "tidemill/version.py").read_text(), re.MULTILINE)
    assert match is not None
    return match[1]


def tag_of(digest: str) -> str:
    """The tag of an image: the start of its digest, because tags in a stack's registry are immutable."""
    return digest.removeprefix("sha256:")[:16]


def push(folder: Path, registry: str, *, insecure: bool = False) -> str:
    """Push the image of a build and return its reference by digest.

    Args:
        registry: A registry, or a repository in one; crane logs in as Docker does.
        insecure: Without TLS.

    Raises:
        BuildError: There is no build, or the registry refused.
    """
    layout = folder / "image"
    if not (layout / "index.json").exists():
        raise BuildError(f"There is no image in {layout}: run `make worker` first.")
    digest = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    repository = registry.rstrip("/") if "/" in registry.rstrip("/") else f"{registry.rstrip('/')}/{NAME}"
    options = ["--insecure"] if insecure else []
    done = tools.run([str(tools.crane()), "push", *options, str(layout), f"{repository}:{tag_of(digest)}"])
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-4:])
        raise BuildError(f"The image was not pushed to {repository}:\n{tail}")
    return f"{repository}@{digest}"
