"""`make demo`: a team's pipeline on localcloud, a job over real photographs, a reclaim in the middle, nothing left.

Every step is a command that a user would type; the demo prints it before it runs it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from examples.photo_tiles.features import features
from examples.photo_tiles.shell import ROOT, DemoError, Pulumi, run, say
from examples.photo_tiles.tiles import cut_all

if TYPE_CHECKING:
    from examples.photo_tiles.on_aws import Aws
    from examples.photo_tiles.on_gcp import Gcp

PROGRAM = Path(__file__).with_name("features.py")
CLOUDS = {"aws": "Aws", "gcp": "Gcp"}
REPORTS = ROOT / "build" / "reports"
"""They stay when everything else is torn down."""


def push_worker(cloud: Aws | Gcp, scratch: Path) -> str:
    """Builds the worker's image and pushes it where the stack will look for it; returns its reference in the stack."""
    name, folder = cloud.cloud.name, ("--folder", str(scratch / "worker"))
    run(cloud.cloud.env, sys.executable, "-m", "worker_image", "build", "--cloud", name, *folder, show=False)
    push = ("push", "--cloud", name, *folder, f"{cloud.registry()}/tidemill-worker")
    pushed = run(cloud.cloud.env, sys.executable, "-m", "worker_image", *push, show=False)
    return f"registry://tidemill-worker@{pushed.split()[0].partition('@')[2]}"


def provision(pulumi: Pulumi, worker: str) -> dict:
    """Brings the stack up and returns its outputs."""
    pulumi("stack", "init", show=False)
    pulumi("config", "set", "tidemill:worker_image", worker)
    pulumi.up()
    return json.loads(pulumi("stack", "output", "--json", show=False))


WATCH = """
import sys, time, tidemill
uri, job, wanted = sys.argv[1:]
look = tidemill.Pipeline.load(uri).job(job).status
while (done := (status := look(consumption=False)).succeeded + status.failed) < int(wanted):
    time.sleep(0.3)
print(done)
"""
"""Ends when so many of a job's items are done: as `tidemill status` in a loop, in one process."""


def reclaim_in_the_middle(cloud: Aws | Gcp, env: dict[str, str], job: str, items: int, taken: list[str]) -> None:
    """Takes a machine away when a quarter of the items is done."""
    done = run(env, sys.executable, "-c", WATCH, env["TIDEMILL_PIPELINE"], job, str(items // 4), show=False)
    if int(done) < items:
        taken.append(cloud.reclaim())


def submit_and_wait(cloud: Aws | Gcp, env: dict[str, str], items: Path, count: int) -> tuple[str, str]:
    """Submits the job, reclaims a machine while it runs; returns the job's id and the reclaimed instance's."""
    command = ("python3", str(PROGRAM), "{input}", "{output}")
    submit = ("tidemill", "submit", "--queue", "cpu", "--name", "tiles", "--items", str(items), "--chunk-size", "16")
    print(f"$ {shlex.join((*submit, '--', *command))}", flush=True)
    job = json.loads(run(env, *submit, "--json", "--", *command, show=False))["job"]
    taken: list[str] = []
    reclaim = threading.Thread(target=reclaim_in_the_middle, args=(cloud, env, job, count, taken), daemon=True)
    reclaim.start()
    run(env, "tidemill", "wait", job, ok=(0, 1))
    status = json.loads(run(env, "tidemill", "status", job, "--json", show=False, ok=(0, 1)))
    if status["succeeded"] < count:
        raise DemoError(f"{job}: {status['succeeded']} of {count} items succeeded. {status['note'] or ''}")
    reclaim.join(timeout=30)
    if not taken:
        raise DemoError("the job ended before a machine could be reclaimed")
    return job, taken[0]


def check_outputs(cloud: Aws | Gcp, env: dict[str, str], job: str, tiles: list[Path]) -> None:
    """Compares every output with what the same program gives right here."""
    lines = run(env, "tidemill", "results", job, "--json", show=False).splitlines()
    outcomes = {outcome["index"]: outcome for outcome in map(json.loads, lines)}
    if sorted(outcomes) != list(range(len(tiles))) or len(lines) != len(tiles):
        raise DemoError(f"{len(lines)} outcomes for {len(tiles)} items")
    for index, tile in enumerate(tiles):
        found = json.loads(cloud.read(env, f"{outcomes[index]['output'].rstrip('/')}/features.json"))
        if found != features(tile) | {"photo": found["photo"]} or tile.name not in found["photo"]:
            raise DemoError(f"item {index}: {found} is not what {tile.name} gives")


def tear_down(cloud: Aws | Gcp, pulumi: Pulumi) -> None:
    """Destroys the stack. `purge` is what allows buckets and registries to go with what is in them."""
    pulumi("config", "set", "--path", "tidemill:allow[0]", "purge")
    pulumi.up()
    pulumi.destroy()
    cloud.remove_photographs()
    left = {kind: found for kind, found in cloud.left().items() if found}
    if left:
        raise DemoError(f"left behind: {left}")


def demo(keep: bool, cloud: Aws | Gcp, scratch: Path) -> None:
    cloud.prepare()
    say(f"{cloud.title} is up on this machine. `make worker` builds the worker's image and pushes it.")
    worker = push_worker(cloud, scratch)
    say("The platform team provisions the pipeline of team `demo`.")
    project = (cloud.cloud.state if keep else scratch) / "project"
    shutil.rmtree(project, ignore_errors=True)
    pulumi = Pulumi(cloud.cloud.env, project, cloud.stack)
    outputs = provision(pulumi, worker)

    say(f"A person with data submits a job: photographs, cut into tiles in {cloud.photos}, one item per tile.")
    tiles = cut_all(scratch / "tiles")
    cloud.upload(tiles)
    items = scratch / "items.txt"
    items.write_text("".join(f"{cloud.photos}/{tile.name}\n" for tile in tiles))
    person = cloud.submitter(outputs) | {"TIDEMILL_PIPELINE": outputs["pipeline_uri"]}
    job, instance = submit_and_wait(cloud, person, items, len(tiles))

    say(f"Spot machine {instance} was taken away while the job ran. Checking every output.")
    check_outputs(cloud, person, job, tiles)
    print(f"{len(tiles)} of {len(tiles)} outputs are correct.")
    say("The job has changed nothing of the pipeline.")
    pulumi.unchanged()
    say("What this job would cost on the real cloud, at list prices:")
    run(person, "tidemill", "estimate", "--like", "tiles")
    say("What became of it, as a page to open in a browser:")
    REPORTS.mkdir(parents=True, exist_ok=True)
    run(person, "tidemill", "report", job, "--output", str(REPORTS / f"{job}.html"))
    if keep:
        say("Everything is still up. Try next:")
        print(UP.format(uri=outputs["pipeline_uri"], job=job, stack=cloud.stack, project=project.relative_to(ROOT)))
        return
    if rest := cloud.rest(outputs):
        say(rest)
    say("Tearing everything down.")
    tear_down(cloud, pulumi)
    say("Nothing is left. Try next:")
    print(NEXT.format(cloud=cloud.cloud.name))


NEXT = """\
  .venv/bin/tidemill run --items docs --shell -- 'wc -w < "$TIDEMILL_INPUT" > "$TIDEMILL_OUTPUT/words.txt"'
  make preview STACK=demo-{cloud}
  make demo CLOUD={cloud} KEEP=1"""
"""A program over files of this machine, what the stack is made of, and this demo again to look around in."""
UP = """\
  eval "$(.venv/bin/python -m localcloud env)"
  export TIDEMILL_PIPELINE={uri}
  tidemill queues
  tidemill status {job}
  tidemill results {job} | head
  tidemill logs {job} --item 7
  (cd {project} && pulumi preview --stack {stack})
  .venv/bin/python -m localcloud down"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave localcloud and the stack up")
    parser.add_argument("--cloud", choices=sorted(CLOUDS), default="aws", help="which cloud (aws)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as folder:
        scratch = Path(folder)
        # Each cloud's SDK is installed with its own requirements.
        kind = getattr(importlib.import_module(f"examples.photo_tiles.on_{options.cloud}"), CLOUDS[options.cloud])
        cloud = kind(ROOT / ".localcloud" if options.keep else scratch / "state")
        if cloud.cloud.pid:
            print("localcloud already runs here; end it first: .venv/bin/python -m localcloud down", file=sys.stderr)
            return 2
        try:
            cloud.cloud.start()
            demo(options.keep, cloud, scratch)
        except (DemoError, subprocess.TimeoutExpired) as error:
            print(f"demo failed: {error}", file=sys.stderr)
            cloud.cloud.stop()
            return 1
        except BaseException:
            cloud.cloud.stop()
            raise
        if not options.keep:
            cloud.cloud.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
