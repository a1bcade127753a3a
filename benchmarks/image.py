"""The worker's image: the download size, and the time from a cold container to the first running item.

Cold means that the image is on the machine but its tree is not; the container's root holds one static program. The time
of the pull and of the container runtime is extra.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.figures import figure
from tests.worker.containers import Team
from tests.worker_image.roots import Root
from worker_image import image, tree

PROGRAM = Path(__file__).resolve().parents[1] / "tests" / "worker_image" / "program.go"
RUNS = 3


def main() -> None:
    """Print a table and the figures."""
    with tempfile.TemporaryDirectory(prefix="tidemill-image-") as made:
        folder = Path(made)
        built = image.build(folder / "built")
        program = folder / "program"
        command = ["go", "build", "-trimpath", "-o", str(program), str(PROGRAM)]
        subprocess.run(command, check=True, timeout=300, stdin=subprocess.DEVNULL)
        runs = [cold(folder / str(number), built.tree, program) for number in range(RUNS)]
        copied, worked = (min(run[part] for run in runs) for part in (0, 1))
        started = min(image.start_seconds(built.tree) for _ in range(RUNS))
        unpacked = tree.size(built.tree)
    print(f"copy of the tree to the machine     {copied:6.2f} s   once an image and machine")
    print(f"start of the worker                 {started:6.2f} s   until it has read its settings")
    print(f"start, one item and its record      {worked:6.2f} s")
    figure("image-compressed", built.size / 1e6, "MB", 35)
    figure("image-tree", unpacked / 1e6, "MB", 90)
    figure("image-start", started, "s", 1)
    figure("image-cold-to-first-item", copied + worked, "s", 5)


def cold(folder: Path, source: Path, program: Path) -> tuple[float, float]:
    """Return the seconds of the copy, and of the worker's whole run of one item."""
    data, root, volume = folder / "data", folder / "root", folder / "volume"
    for each in (data / "store", data / "scratch", root, volume):
        each.mkdir(parents=True)
    (root / "program").hardlink_to(program)
    (data / "item").write_text("item")
    team = Team(data)
    job = team.job([str(data / "item")], ["/program", "{input}", "{output}"])
    init = Root(root, {"/worker": volume}, {"/tidemill": source})
    item = Root(root, {str(data): data}, {"/tidemill": volume})
    copied = seconds(init, ["/tidemill/tidemill-worker", "copy", "/worker"], {})
    worked = seconds(item, ["/tidemill/tidemill-worker", "start"], job.environment())
    if job.outcomes()[0].status != "succeeded":
        raise RuntimeError(f"the item failed: {job.outcomes()[0].error}")
    return copied, worked


def seconds(root: Root, command: list[str], env: dict[str, str]) -> float:
    """Return how long a program takes in a root."""
    started = time.perf_counter()
    done = root.run(command, env)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started
