"""A pipeline on every cloud, in this process: the real backends over stand-ins for each cloud's service.

`work` is what a fleet does: it takes what is delivered and commits. What no stand-in here can prove is how a cloud
acts; the tests of each backend say so, and tests/e2e runs real workers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import boto3

from tests.unit.client_fakes import ARN, descriptor, outcome, ran
from tests.unit.google_fakes import FakeGoogle, gcp_descriptor, gcp_queue, names_of
from tidemill.client import Pipeline
from tidemill.clouds.aws.account import AwsAccount
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.clouds.local.desk import Desk
from tidemill.descriptor import Descriptor
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk
from tidemill.services.backend import Backend
from tidemill.services.batch.backend import AwsBatch
from tidemill.services.local.backend import LocalBackend, describe_machine
from tidemill.services.pubsub.backend import GcpPubSub
from tidemill.store import Store


class World(Protocol):
    """A pipeline with a fleet."""

    pipeline: Pipeline
    queue: str

    def delivered(self, job: str) -> Counter[tuple[int, int]]:
        """How often each (round, chunk) was given to the cloud."""
        ...

    def work(self, job: str, fail: Collection[int] = (), lose: Collection[int] = ()) -> None:
        """Run delivered work: items of `fail` fail; chunks of `lose` are delivered in vain until the cloud stops."""
        ...

    def say(self, at: float, **fields: Any) -> None:
        """A line that a worker prints."""
        ...

    def die_after(self, arrays: int | None) -> None:
        """Have the submitter die after sending this many arrays; None: never."""
        ...


def run_chunk(pipeline: Pipeline, job: str, number: int, chunk: int, fail: Collection[int]) -> None:
    """Commit a chunk like a worker: the items that its round names."""
    ledger = Ledger(pipeline.store, job)
    wanted = (ledger.round(number).items or {}).get(chunk)
    items = [item for item in read_chunk(pipeline.store, job, chunk) if wanted is None or item.index in wanted]
    ledger.chunk(number, chunk).marker("a", 1, {}).write([])
    outcomes = [outcome(item.index, item.uri, item.index in fail) for item in items]
    ledger.chunk(number, chunk).commit("a", outcomes, run=ran())


def in_arrays_of(world: World, chunks: int) -> None:
    """Have jobs sent in arrays of so many chunks."""
    backend = world.pipeline.site.backend("cpu")
    backend.service = replace(backend.service, array_chunks=chunks)


class DyingError(BaseException):
    """The submitter dies."""


class Dying:
    """Lets a submitter die in the middle of sending arrays."""

    def __init__(self, backend: Backend) -> None:
        self.left: int | None = None
        self._real = backend.enqueue
        backend.enqueue = self  # type: ignore[method-assign]

    def __call__(self, shape: Any, arrays: Any) -> None:
        for array in arrays:
            if self.left == 0:
                raise DyingError
            self._real(shape, [array])
            self.left = None if self.left is None else self.left - 1


class LocalWorld:
    """`tidemill run`'s store. This class does the work of a run; nothing is delivered in vain."""

    queue = "local"

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        made = describe_machine(f"file://{folder}/store", 4, 8192, 0, 2)
        self.pipeline = opened(made, lambda store: LocalBackend(made))
        self._dying = Dying(self.pipeline.site.backend("cpu"))

    def delivered(self, job: str) -> Counter[tuple[int, int]]:
        rounds = Ledger(self.pipeline.store, job).rounds()
        return Counter((one.round, chunk) for one in rounds for array in one.arrays for chunk in array.all())

    def work(self, job: str, fail: Collection[int] = (), lose: Collection[int] = ()) -> None:
        assert not lose
        ledger = Ledger(self.pipeline.store, job)
        desk = Desk(self.pipeline.store.uri, job)
        lock = desk.lock(0)
        assert lock
        with lock:
            for number, chunk in self.delivered(job):
                if not ledger.is_cancelled(number) and chunk not in ledger.done_chunks(number):
                    run_chunk(self.pipeline, job, number, chunk, fail)

    def say(self, at: float, **fields: Any) -> None:
        desk = Desk(self.pipeline.store.uri, fields["job"])
        desk.logs.mkdir(parents=True, exist_ok=True)
        with (desk.logs / "1.jsonl").open("a") as file:
            file.write(json.dumps({"at": at, **fields}) + "\n")

    def die_after(self, arrays: int | None) -> None:
        self._dying.left = arrays


class AwsWorld:
    """AWS Batch and CloudWatch Logs behind boto3, whose models check every request."""

    queue = "cpu"

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        session = boto3.Session("id", "key", region_name="us-west-2")
        for service in ("batch", "logs", "service-quotas", "sts"):
            session.events.register(f"before-call.{service}", self._call)
        made = descriptor(f"file://{folder}/store")
        self.pipeline = opened(made, lambda store: AwsBatch(made, AwsAccount(made, session)))
        self._dying = Dying(self.pipeline.site.backend("cpu"))

    def _call(self, model: Any, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        body = params["body"]
        asked = {} if isinstance(body, dict) else json.loads(body or b"{}")
        return SimpleNamespace(status_code=200, headers={}), getattr(self, f"_{model.name}")(asked)

    def _GetCallerIdentity(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"Arn": "arn:aws:iam::123456789012:user/ada", "Account": "123456789012", "UserId": "ada"}

    def _SubmitJob(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        env = {pair["name"]: pair["value"] for pair in asked["containerOverrides"]["environment"]}
        size = asked.get("arrayProperties", {}).get("size", 1)
        made = {"name": asked["jobName"], "id": f"id-{len(self.jobs)}", "env": env, "children": ["RUNNABLE"] * size}
        self.jobs.append(made)
        return {"jobName": made["name"], "jobId": made["id"]}

    def _ListJobs(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if parent := asked.get("arrayJobId"):
            made = next(one for one in self.jobs if one["id"] == parent)
            failed = [n for n, state in enumerate(made["children"]) if state == asked["jobStatus"]]
            return {"jobSummaryList": [{"jobId": f"{parent}:{n}", "statusReason": "Host EC2 gone"} for n in failed]}
        (prefix,) = asked["filters"][0]["values"]
        found = [one for one in self.jobs if one["name"].startswith(prefix.removesuffix("*"))]
        return {"jobSummaryList": [{"jobId": one["id"], "jobName": one["name"]} for one in found]}

    def _DescribeJobs(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"jobs": [found for name in asked["jobs"] if (found := self._described(*name.partition(":")[::2]))]}

    def _described(self, parent: str, child: str) -> dict[str, Any] | None:
        made = next((one for one in self.jobs if one["id"] == parent), None)
        if made is None:
            return None
        ended = all(state in ("SUCCEEDED", "FAILED") for state in made["children"])
        status = "PENDING" if not ended else "FAILED" if "FAILED" in made["children"] else "SUCCEEDED"
        size = len(made["children"])
        return {
            "jobId": parent,
            "jobName": made["name"],
            "status": made["children"][0] if size == 1 else status,
            "createdAt": self.jobs.index(made),
            "arrayProperties": {"size": size, "statusSummary": Counter(made["children"])} if size > 1 else {},
            "container": {"logStreamName": f"{parent}:{child or 0}"},
        }

    def _TerminateJob(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        made = next(one for one in self.jobs if one["id"] == asked["jobId"])
        made["children"] = ["FAILED" if state == "RUNNABLE" else state for state in made["children"]]
        return {}

    def _DescribeJobQueues(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        order = [{"order": 1, "computeEnvironment": "ce-1"}]
        states = {"state": "ENABLED", "status": "VALID", "computeEnvironmentOrder": order}
        return {"jobQueues": [{"jobQueueArn": arn, **states} for arn in asked["jobQueues"] if arn.startswith(ARN)]}

    def _DescribeComputeEnvironments(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        made = {
            "computeEnvironmentName": "ce-1",
            "computeEnvironmentArn": "ce-1",
            "state": "ENABLED",
            "status": "VALID",
        }
        return {"computeEnvironments": [made]}

    def _GetJobQueueSnapshot(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"frontOfQueue": {"jobs": []}}

    def _GetServiceQuota(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"Quota": {"Value": 10_000.0}}

    def _FilterLogEvents(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        streams = asked.get("logStreamNames")
        terms = re.findall(r'\(\$\.(\w+) = ("[^"]*"|\d+)\)', asked.get("filterPattern", ""))
        found = []
        for line in self.lines:
            fields = json.loads(line["message"])
            kept = all(_matches(json.loads(value), fields.get(name)) for name, value in terms)
            in_time = asked.get("startTime", 0) <= line["timestamp"] <= asked.get("endTime", 1 << 60)
            if kept and in_time and (streams is None or line["logStreamName"] in streams):
                found.append(line)
        return {"events": found}

    def delivered(self, job: str) -> Counter[tuple[int, int]]:
        ledger, found = Ledger(self.pipeline.store, job), Counter[tuple[int, int]]()
        for made in self.jobs:
            if made["env"]["TIDEMILL_JOB"] == job:
                number, k = int(made["env"]["TIDEMILL_ROUND"]), int(made["env"]["TIDEMILL_ARRAY"])
                found.update((number, chunk) for chunk in ledger.round(number).arrays[k].all())
        return found

    def work(self, job: str, fail: Collection[int] = (), lose: Collection[int] = ()) -> None:
        ledger = Ledger(self.pipeline.store, job)
        for made in self.jobs:
            env = made["env"]
            for child, state in enumerate(made["children"]):
                if env["TIDEMILL_JOB"] == job and state == "RUNNABLE":
                    number = int(env["TIDEMILL_ROUND"])
                    chunk = ledger.round(number).arrays[int(env["TIDEMILL_ARRAY"])].chunk(child)
                    made["children"][child] = "FAILED" if chunk in lose else "SUCCEEDED"
                    if chunk not in lose:
                        run_chunk(self.pipeline, job, number, chunk, fail)

    def say(self, at: float, **fields: Any) -> None:
        ledger, chunk = Ledger(self.pipeline.store, fields["job"]), fields["chunk"]
        for made in self.jobs:
            if made["env"]["TIDEMILL_JOB"] == fields["job"]:
                chunks = list(ledger.round(0).arrays[int(made["env"]["TIDEMILL_ARRAY"])].all())
                if chunk in chunks:
                    stream = f"{made['id']}:{chunks.index(chunk)}"
                    event = {"timestamp": int(at * 1000), "message": json.dumps(fields), "logStreamName": stream}
                    self.lines.append(event | {"eventId": f"e{len(self.lines)}"})

    def die_after(self, arrays: int | None) -> None:
        self._dying.left = arrays


def _matches(wanted: Any, value: Any) -> bool:
    """CloudWatch's `=`: a star stands for anything."""
    if isinstance(wanted, str) and "*" in wanted:
        return wanted.strip("*") in str(value)
    return wanted == value


class GcpWorld:
    """Pub/Sub, Monitoring and Logging behind google-auth, requests checked against the discovery documents."""

    queue = "cpu"

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr("tidemill.services.pubsub.backend.LOOK_SECONDS", -1.0)
        self.google = FakeGoogle(page=1000)
        session = self.google.session(monkeypatch)
        made = gcp_descriptor(f"file://{folder}/store")
        self.pipeline = opened(made, lambda store: GcpPubSub(made, store, GcpAccount(made, session)))
        self._dying = Dying(self.pipeline.site.backend("cpu"))
        self.subscription = names_of(gcp_queue()).subscription

    def _messages(self, job: str) -> Iterator[tuple[int, int, Any]]:
        for message in list(self.google.messages[self.subscription]):
            if message.attributes["job"] == job:
                yield int(message.attributes["round"]), int(message.attributes["chunk"]), message

    def delivered(self, job: str) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for api, path, body in self.google.calls:
            if api == "pubsub" and path.endswith(":publish"):
                labels = [message["attributes"] for message in body["messages"]]
                found.update((int(one["round"]), int(one["chunk"])) for one in labels if one["job"] == job)
        return found

    def work(self, job: str, fail: Collection[int] = (), lose: Collection[int] = ()) -> None:
        ledger = Ledger(self.pipeline.store, job)
        for number, chunk, message in self._messages(job):
            if chunk in lose:
                self.google.kill(self.subscription, job, [chunk])
                continue
            if not ledger.is_cancelled(number) and chunk not in ledger.done_chunks(number):
                run_chunk(self.pipeline, job, number, chunk, fail)
            self.google.messages[self.subscription].remove(message)

    def say(self, at: float, **fields: Any) -> None:
        self.google.line(at, **fields)

    def die_after(self, arrays: int | None) -> None:
        self._dying.left = arrays


def opened(made: Descriptor, backend: Callable[[Store], Backend]) -> Pipeline:
    """A pipeline whose descriptor lies in its store."""
    store = Store.open(made.store)
    store.put("pipeline.json", made.model_dump_json().encode())
    return Pipeline(made, store, backend(store))


WORLDS: dict[str, Callable[[Path, Any], World]] = {"local": LocalWorld, "aws": AwsWorld, "gcp": GcpWorld}


def worlds() -> dict[str, Callable[[Path, Any], World]]:
    """A world for each service of this repository, and those of packages outside it."""
    return WORLDS | {each.name: each.load() for each in entry_points(group="tidemill.worlds")}
