"""`make demo`: a team's pipeline on localcloud, a job over real photographs, a reclaim in the middle, nothing left.

Every step is a command that a user would type; the demo prints it before it runs it.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import boto3

from examples.photo_tiles.features import features
from examples.photo_tiles.tiles import cut_all
from localcloud.cloud import Cloud
from ops.project import copy_project

ROOT = Path(__file__).resolve().parents[2]
STACK = "demo-aws"
PHOTOS = "tidemill-demo-photos"
PROGRAM = Path(__file__).with_name("features.py")
QUIETLY = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress")
STARTED = time.monotonic()


class DemoError(Exception):
    """A step did not do what the demo promises."""


def say(text: str) -> None:
    print(f"\n[{time.monotonic() - STARTED:5.1f} s] {text}", flush=True)


def run(
    env: dict[str, str],
    *command: str,
    show: bool = True,
    timeout: float = 180,
    ok: tuple[int, ...] = (0,),
    cwd: Path = ROOT,
) -> str:
    """Runs a command; its output goes to the terminal, or comes back when `show` is off."""
    if show:
        print(f"$ {shlex.join(command)}", flush=True)
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=None if show else subprocess.PIPE,
        stderr=None if show else subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode not in ok:
        raise DemoError(f"`{shlex.join(command)}` ended with {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
    return done.stdout or ""


class Pulumi:
    """The platform team's shell: `pulumi` in a copy of the project, which its commands may write to."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        folder.mkdir()
        self._env, self._folder = env, copy_project(folder, STACK)

    def __call__(self, *command: str, show: bool = True) -> str:
        return run(self._env, "pulumi", *command, "--stack", STACK, show=show, cwd=self._folder)

    def up(self) -> None:
        self("up", *QUIETLY)

    def destroy(self) -> None:
        self("destroy", *QUIETLY, "--remove")


def provision(pulumi: Pulumi) -> dict:
    """Brings the stack up and returns its outputs."""
    pulumi("stack", "init", show=False)
    pulumi.up()
    return json.loads(pulumi("stack", "output", "--json", show=False))


def upload_photographs(env: dict[str, str], tiles: list[Path], scratch: Path) -> Path:
    """The team's own bucket of raw data, which the stack may read. Returns the list of items."""
    s3 = client(env, "s3")
    s3.create_bucket(Bucket=PHOTOS, CreateBucketConfiguration={"LocationConstraint": env["AWS_REGION"]})
    for tile in tiles:
        s3.upload_file(str(tile), PHOTOS, tile.name)
    items = scratch / "items.txt"
    items.write_text("".join(f"s3://{PHOTOS}/{tile.name}\n" for tile in tiles))
    return items


def client(env: dict[str, str], service: str):
    return boto3.client(
        service,
        endpoint_url=env["AWS_ENDPOINT_URL"],
        region_name=env["AWS_REGION"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=env.get("AWS_SESSION_TOKEN"),
    )


def log_in_as_submitter(env: dict[str, str], role: str) -> dict[str, str]:
    """A person with data: may submit to this team's queues and read its results, nothing else."""
    credentials = client(env, "sts").assume_role(RoleArn=role, RoleSessionName="demo")["Credentials"]
    return env | {
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }


def reclaim_in_the_middle(cloud: Cloud, env: dict[str, str], job: str, items: int, taken: list[str]) -> None:
    """Takes a machine away when a quarter of the items is done."""
    while True:
        status = json.loads(run(env, "tidemill", "status", job, "--json", show=False, ok=(0, 1)))
        done = status["succeeded"] + status["failed"]
        if done >= items:
            return
        if done >= items // 4:
            break
        time.sleep(0.3)
    taken.append(cloud.control("batch/reclaim")["instance"])


def submit_and_wait(cloud: Cloud, env: dict[str, str], items: Path, count: int) -> tuple[str, str]:
    """Submits the job, reclaims a machine while it runs; returns the job's id and the reclaimed instance's."""
    command = ("python3", str(PROGRAM), "{input}", "{output}")
    submit = ("tidemill", "submit", "--queue", "cpu", "--name", "tiles", "--items", str(items), "--chunk-size", "16")
    print(f"$ {shlex.join((*submit, '--', *command))}", flush=True)
    job = json.loads(run(env, *submit, "--json", "--", *command, show=False))["job"]
    taken: list[str] = []
    reclaim = threading.Thread(target=reclaim_in_the_middle, args=(cloud, env, job, count, taken), daemon=True)
    reclaim.start()
    run(env, "tidemill", "wait", job)
    reclaim.join(timeout=30)
    if not taken:
        raise DemoError("the job ended before a machine could be reclaimed")
    return job, taken[0]


def check_outputs(env: dict[str, str], job: str, tiles: list[Path]) -> None:
    """Compares every output with what the same program gives right here."""
    lines = run(env, "tidemill", "results", job, "--json", show=False).splitlines()
    outcomes = {outcome["index"]: outcome for outcome in map(json.loads, lines)}
    if sorted(outcomes) != list(range(len(tiles))) or len(lines) != len(tiles):
        raise DemoError(f"{len(lines)} outcomes for {len(tiles)} items")
    s3 = client(env, "s3")
    for index, tile in enumerate(tiles):
        bucket, _, prefix = outcomes[index]["output"].removeprefix("s3://").partition("/")
        found = json.loads(s3.get_object(Bucket=bucket, Key=f"{prefix.rstrip('/')}/features.json")["Body"].read())
        if found != features(tile) | {"photo": found["photo"]} or tile.name not in found["photo"]:
            raise DemoError(f"item {index}: {found} is not what {tile.name} gives")


def tear_down(env: dict[str, str], pulumi: Pulumi) -> None:
    """Destroys the stack. `purge` is what allows buckets and registries to go with what is in them."""
    s3 = client(env, "s3")
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=PHOTOS):
        s3.delete_objects(Bucket=PHOTOS, Delete={"Objects": [{"Key": entry["Key"]} for entry in page["Contents"]]})
    s3.delete_bucket(Bucket=PHOTOS)
    pulumi("config", "set", "--path", "tidemill:allow[0]", "purge")
    pulumi.up()
    pulumi.destroy()


def check_nothing_left(env: dict[str, str]) -> None:
    left = {
        "buckets": client(env, "s3").list_buckets()["Buckets"],
        "compute environments": client(env, "batch").describe_compute_environments()["computeEnvironments"],
        "queues": client(env, "batch").describe_job_queues()["jobQueues"],
        "repositories": client(env, "ecr").describe_repositories()["repositories"],
        "log groups": client(env, "logs").describe_log_groups()["logGroups"],
        "roles": [
            role["RoleName"]
            for role in client(env, "iam").list_roles()["Roles"]
            if not role["Path"].startswith("/aws-service-role/")
        ],
    }
    if any(left.values()):
        raise DemoError(f"left behind: { {kind: found for kind, found in left.items() if found} }")


def demo(keep: bool, cloud: Cloud, scratch: Path) -> None:
    env = cloud.env
    say("An AWS on this machine is up. The platform team provisions the pipeline of team `demo`.")
    pulumi = Pulumi(env, scratch / "project")
    outputs = provision(pulumi)

    say(f"A person with data: the photographs, cut into tiles, lie in s3://{PHOTOS}. Submitting one item a tile.")
    tiles = cut_all(scratch / "tiles")
    items = upload_photographs(env, tiles, scratch)
    person = log_in_as_submitter(env, outputs["submitter_role_arn"]) | {"TIDEMILL_PIPELINE": outputs["pipeline_uri"]}
    job, instance = submit_and_wait(cloud, person, items, len(tiles))

    say(f"Spot machine {instance} was reclaimed on the way. Checking every output against this machine's own.")
    check_outputs(person, job, tiles)
    print(f"{len(tiles)} of {len(tiles)} outputs are right.")
    if keep:
        say("Left up. What to type next:")
        print(NEXT.format(uri=outputs["pipeline_uri"], job=job, stack=STACK))
        return
    say("Tearing everything down.")
    tear_down(env, pulumi)
    check_nothing_left(env)
    say("Nothing is left.")


NEXT = """\
  eval "$(.venv/bin/python -m localcloud env)"
  export TIDEMILL_PIPELINE={uri}
  tidemill queues
  tidemill status {job}
  tidemill results {job} | head
  tidemill logs {job} --item 7
  pulumi stack --stack {stack}
  .venv/bin/python -m localcloud down"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave localcloud and the stack up")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="tidemill-demo-") as folder:
        scratch = Path(folder)
        cloud = Cloud(ROOT / ".localcloud" if keep else scratch / "state")
        if cloud.pid:
            print("localcloud already runs here; end it first: .venv/bin/python -m localcloud down", file=sys.stderr)
            return 2
        try:
            cloud.start()
            demo(keep, cloud, scratch)
        except (DemoError, subprocess.TimeoutExpired) as error:
            print(f"demo failed: {error}", file=sys.stderr)
            cloud.stop()
            return 1
        except BaseException:
            cloud.stop()
            raise
        if not keep:
            cloud.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
