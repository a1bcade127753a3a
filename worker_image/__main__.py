"""`python -m worker_image build --cloud aws`: the tree and its image in build/worker; `push` takes it to a registry."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from worker_image import image, tools, tree
from worker_image.tools import BuildError

BUILD = tree.ROOT / "build" / "worker"


def main() -> int:
    """Run the command; 1 if it fails."""
    parser = argparse.ArgumentParser(prog="python -m worker_image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("build", "build the tree and the image"), ("push", "push the built image to a registry")):
        command = commands.add_parser(name, help=what)
        command.add_argument("--cloud", choices=tree.CLOUDS, default=tree.CLOUDS[0], help="whose wheels (default: aws)")
        command.add_argument(
            "--architecture", choices=sorted(tools.ARCHITECTURES.values()), help="(default: this machine's)"
        )
        command.add_argument("--folder", type=Path, default=BUILD, help=f"where (default: {BUILD})")
        if name == "push":
            command.add_argument("registry", help="registry or repository: 123….dkr.ecr.us-west-2.amazonaws.com/demo")
    given = parser.parse_args()
    try:
        given.architecture = given.architecture or tools.architecture()
        other = given.architecture != tools.architecture()
        folder = given.folder / (f"{given.cloud}-{given.architecture}" if other else given.cloud)
        return _build(folder, given) if given.command == "build" else _push(folder, given)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1


def _build(folder: Path, given: argparse.Namespace) -> int:
    started = time.monotonic()
    built = image.build(folder, given.architecture)
    megabytes = tree.size(built.tree) / 1e6
    print(f"tree   {built.tree} ({megabytes:.0f} MB)")
    print(f"image  {built.layout} ({built.size / 1e6:.0f} MB compressed, in {time.monotonic() - started:.1f} s)")
    if given.architecture == tools.architecture():
        print(f"start  {min(image.start_seconds(built.tree) for _ in range(3)):.2f} s to the worker's first line")
    print(f"digest {built.digest}")
    return 0


def _push(folder: Path, given: argparse.Namespace) -> int:
    reference = image.push(folder, given.registry)
    key = "worker_image_arm64" if given.architecture == "arm64" else "worker_image"
    print(f"{reference}\n\nSet it for a stack:\n  pulumi config set tidemill:{key} {reference}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
