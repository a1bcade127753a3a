"""The worker in images that do not contain it: the machine brings it, and keeps its own metadata to itself. The sender
is in the worker's image as well, and runs from it.

localcloud unpacks and runs images, not Docker, the ECS agent and Lambda, and their registry is not ECR.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.team import DATA, PROGRAMS, Team, await_that, client, team_up
from tests.gate import Gate
from tests.worker_image import cached
from worker_image import image
from worker_image.oci import Layout
from worker_image.tools import architecture

pytestmark = pytest.mark.namespaces

ROOT = Path(__file__).resolve().parents[2]
ARRIVALS = {"template": "files", "prefix": f"s3://{DATA}/in/", "settle_minutes": 1}
THIS_MACHINE = "docker.io/library/python@sha256:" + 64 * "1"


def bare_image(folder: Path) -> Path:
    """The layout of an image that contains only one static program."""
    source, program = ROOT / "tests/worker_image/program.go", folder / "program"
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    subprocess.run(["go", "build", "-trimpath", "-o", str(program), str(source)], env=env, check=True, timeout=300)
    config = {"Env": ["LD_LIBRARY_PATH=/opt/lib", "LC_ALL=de_DE", "PYTHONHOME=/opt/conda"]}
    Layout(folder / "image").write({"program": program}, architecture(), config)
    return folder


METADATA = """
import sys, urllib.request
request = urllib.request.Request("http://169.254.169.254/latest/api/token", method="PUT")
request.add_header("X-aws-ec2-metadata-token-ttl-seconds", "60")
try:
    said = urllib.request.urlopen(request, timeout=3).read()
except OSError as error:
    said = type(error).__name__.encode()
open(sys.argv[1] + "/said", "wb").write(said)
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose machines get the worker from its image."""
    bare = bare_image(tmp_path_factory.mktemp("bare"))
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        registry = cloud.control("batch/registry")["address"]
        pushed = {
            name: image.push(folder, f"{registry}/demo-local/{name}").replace(f"{registry}/demo-local", "registry:/")
            for name, folder in (("tidemill-worker", cached.build().tree.parent), ("bare", bare))
        }
        queue = {
            "images": {"default": THIS_MACHINE, "bare": pushed["bare"]},
            "item": {"cpus": 1, "memory_mib": 512},
            "machines": {"families": ["c6i", "m6i"], "cpus": {"min": 2, "max": 4}},
            "capacity": [{"market": "spot", "max_cpus": 8}],
        }
        settings = {"tidemill:worker_image": pushed["tidemill-worker"], "tidemill:queues": {"cpu": queue}}
        settings["tidemill:schedules"] = {"nightly": {"template": "tiles", "cron": "0 2 * * *"}}
        settings["tidemill:arrivals"] = {"files": ARRIVALS}
        made = team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=settings)
        # They settle while other tests run.
        arrive(made)
        yield made


def arrive(team: Team) -> None:
    """Put files into the bucket, whose owner has switched EventBridge on."""
    s3 = client(team.cloud.env, "s3")
    s3.put_bucket_notification_configuration(Bucket=DATA, NotificationConfiguration={"EventBridgeConfiguration": {}})
    for name in ("elsewhere", *(f"in/{index}" for index in range(3))):
        s3.put_object(Bucket=DATA, Key=name, Body=name.encode())


def run(team: Team, name: str, items: Path, image_name: str, *command: str) -> list[dict]:
    options = ("--queue", "cpu", "--name", name, "--items", str(items), "--chunk-size", "5", "--image", image_name)
    job = json.loads(team.tidemill("submit", *options, "--json", "--", *command))["job"]
    team.tidemill("wait", job)
    outcomes = team.results(job)
    assert sorted(outcome["index"] for outcome in outcomes) == list(range(10))
    assert {outcome["status"] for outcome in outcomes} == {"succeeded"}
    return outcomes


def test_an_image_of_one_static_program(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("bare", 10, tmp_path)
    outcomes = run(team, "bare", items, "bare", "/program", "{input}", "{output}")
    for outcome in outcomes:
        index = outcome["index"]
        assert team.read(outcome["output"] + "copy") == f"bare {index}\n".encode() * (index + 1)
    seen = json.loads(team.read(outcomes[0]["output"] + "seen.json"))["environment"]
    environment = dict(line.split("=", 1) for line in seen)
    assert {n: environment[n] for n in ("LD_LIBRARY_PATH", "LC_ALL", "PYTHONHOME", "HOME")} == {
        "LD_LIBRARY_PATH": "/opt/lib",
        "LC_ALL": "de_DE",
        "PYTHONHOME": "/opt/conda",
        "HOME": "/",
    }
    assert not [name for name in environment if name == "SSL_CERT_FILE" or name.startswith("TIDEMILL_WAS")]


def test_an_image_with_a_python_of_its_own(team: Team, tmp_path: Path) -> None:
    items, digests = team.put_items("python", 10, tmp_path)
    program = (sys.executable, str(PROGRAMS / "digest.py"), "{input}", "{output}")
    outcomes = run(team, "python", items, "default", *program)
    found = [team.read(outcome["output"] + "sha256.txt").decode() for outcome in outcomes]
    assert found == digests


def test_a_schedule_sends_a_template_with_the_clients_in_the_workers_image(team: Team, tmp_path: Path) -> None:
    """A person saves it; the schedule sends it with the sender's role, once for a time, as does a person by hand."""
    s3 = client(team.cloud.env, "s3")
    now = datetime.now(UTC)
    due = (now + timedelta(days=1)).replace(hour=2, minute=0, second=0, microsecond=0)
    # The sender believes its own clock, by which yesterday's or today's time is the newest.
    for ago in (1, 2):
        s3.put_object(Bucket=DATA, Key=f"raw/{due - timedelta(days=ago):%Y/%m/%d}/a", Body=b"a")
    program = (sys.executable, str(PROGRAMS / "digest.py"), "{input}", "{output}")
    pattern = f"s3://{DATA}/raw/{{time:%Y/%m/%d}}/**"
    team.tidemill("template", "save", "tiles", "--queue", "cpu", "--items", pattern, "--", *program)
    assert "nightly" in team.cloud.control("schedules/turn", to=(due + timedelta(seconds=30)).isoformat())["fired"]
    await_that(lambda: notes(team, "tiles"), "a note of the send")
    ((job, reason),) = notes(team, "tiles")
    assert job, reason
    team.tidemill("wait", job)
    (outcome,) = team.results(job)
    assert team.read(outcome["output"] + "sha256.txt").decode() == hashlib.sha256(b"a").hexdigest()
    function = client(team.cloud.env, "lambda").list_functions()["Functions"][0]["FunctionName"]
    event = json.dumps({"schedule": "nightly", "time": due.isoformat()})
    again = client(team.cloud.env, "lambda").invoke(FunctionName=function, Payload=event)
    assert "FunctionError" not in again
    assert notes(team, "tiles") == [(job, "")]


def test_files_that_arrive_become_the_items_of_one_job(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    """By the bucket's events, their rule and queue, and the sender's look of every minute, with the rights of each."""
    program = 'cp "$1" "$2/copy" && date +%s > "$2/began"'
    team.tidemill("template", "save", "files", "--queue", "cpu", "--", "sh", "-c", program, "sh", "{input}", "{output}")
    newest = client(team.cloud.env, "s3").head_object(Bucket=DATA, Key="in/2")["LastModified"].timestamp()
    await_that(lambda: time.time() > newest + 60 * ARRIVALS["settle_minutes"] + 1, "the files have settled", 90)
    looked = time.time()
    assert "_arrivals" in team.cloud.control("schedules/turn", seconds=60)["fired"]
    ((job, reason),) = await_that(lambda: notes(team, "files"), "a note of the send")
    assert job, reason
    team.tidemill("wait", job)
    outcomes = team.results(job)
    assert sorted(team.read(f"{each['output']}copy") for each in outcomes) == [b"in/0", b"in/1", b"in/2"]
    began = min(int(team.read(f"{each['output']}began")) for each in outcomes)
    seen = {
        (each["check"], each["verdict"]) for each in json.loads(team.tidemill("doctor", "--json", ok=(0, 3)))["checks"]
    }
    # Whether the bucket tells EventBridge is its owner's to see.
    assert {("schedule nightly", "ok"), ("arrivals files", "ok"), ("arrivals files", "unknown")} <= seen
    with capsys.disabled():
        (row,) = (each for each in json.loads(team.tidemill("jobs", "--json"))["jobs"] if each["job"] == job)
        sent = datetime.fromisoformat(row["created_at"]).timestamp()
        print(f" look at settled files to job {sent - looked:.0f} s, to program {began - looked:.0f} s", end="")


def notes(team: Team, template: str) -> list[tuple[str | None, str]]:
    """Job and reason of each send that is over."""
    s3 = client(team.cloud.env, "s3")
    names = [name for name in team.names(f"sends/{template}/") if "~" in name and "~begun" not in name]
    read = [json.loads(s3.get_object(Bucket=team.bucket, Key=name)["Body"].read()) for name in names]
    return [(each.get("job"), each.get("reason", "")) for each in read if "outcome" in each]


def test_a_release_reaches_a_machine_that_runs(team: Team, tmp_path: Path, held: Gate) -> None:
    """The launcher of one release starts the worker of another, and no machine is replaced for it."""
    items, _ = team.put_items("held", 1, tmp_path)
    waits = team.submit("held", items, "sh", "-c", held.wait)
    (machine,) = await_that(
        lambda: [each for each in team.cloud.control("batch/machines")["machines"] if each["children"]], "a machine"
    )

    worker = tmp_path / "worker"
    shutil.copytree(cached.build().tree, worker / "tree", symlinks=True)
    (worker / "tree" / "released").write_text("another one")
    config = {"Entrypoint": ["/tidemill/tidemill-worker"]}
    Layout(worker / "image").write({"tidemill": worker / "tree"}, architecture(), config)
    registry = team.cloud.control("batch/registry")["address"]
    pushed = image.push(worker, f"{registry}/demo-local/tidemill-worker")
    with team.project.config() as settings:
        settings["tidemill:worker_image"] = pushed.replace(f"{registry}/demo-local", "registry:/")
    plan = team.project.up().ok().plan
    assert {step.split()[1] for step in plan} == {"JobDefinition", "BucketObjectv2", "Function"}

    job = team.submit("next", items, sys.executable, "-c", METADATA, "{output}")
    await_that(lambda: team.done(job), "the second release's worker")
    machines = team.cloud.control("batch/machines")["machines"]
    assert machine["instance"] in [each["instance"] for each in machines]
    trees = team.cloud.state / "machines" / machine["instance"] / "var/lib/tidemill/worker"
    assert [path.name for path in trees.glob("*/released")] == ["released"]
    held.open()
    (outcome,) = team.results(job)
    assert team.read(outcome["output"] + "said") == b"URLError", "containers do not reach instance metadata"
    team.tidemill("wait", waits)
