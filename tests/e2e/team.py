"""A team with a provisioned pipeline, and the actions of its members."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

from localcloud.cloud import Cloud
from tests.engine.inventory import client
from tests.harness import Project
from tidemill import layout
from tidemill.advice.cache import Cache
from tidemill.advice.calls import Call, Reply, ask_all
from tidemill.cli import main
from tidemill.client import Pipeline, Status
from tidemill.clouds.gcp.logs import ReadLimit
from tidemill.state import Snapshots

PROGRAMS = Path(__file__).parent / "programs"
SGD = Path(__file__).parents[1] / "worker/programs/sgd.py"
ONCALL = "arn:aws:sns:us-west-2:123456789012:oncall"
"""A topic that the jobs of the team that tests share may tell."""
DATA = "tidemill-demo-photos"
TIMEOUT_SECONDS = 600
"""Allowed for what takes seconds on a quiet machine, since CI may be busy."""


def assume(env: Mapping[str, str], role: str) -> dict[str, str]:
    """The environment of somebody logged in as a role."""
    credentials = client(env, "sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    return {
        **env,
        "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
        "AWS_SESSION_TOKEN": credentials["SessionToken"],
    }


def await_that(condition: Callable[[], Any], what: str, timeout: float = TIMEOUT_SECONDS) -> Any:
    """Wait until a condition is true and return its value. Most of the time is left to what it waits for, and the
    longer that has taken, the less often the condition is looked at.

    Raises:
        AssertionError: It did not become true in time.
    """
    start = asked = time.monotonic()
    while not (value := condition()):
        answered = time.monotonic()
        assert answered < start + timeout, f"not within {timeout} s: {what}"
        time.sleep(min(2.0, max(0.2, 8 * (answered - asked), (answered - start) / 10)))
        asked = time.monotonic()
    return value


class Member:
    """Somebody who may use a pipeline but not change it."""

    person: dict[str, str]
    """Their environment."""

    def tidemill(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run a command line in this process and return what it printed to stdout. The tests of the README run
        commands in processes of their own: to start one takes longer than most of them."""
        code, printed, told = self._typed(arguments)
        assert code in ok, f"{arguments} ended with {code}\n{printed}\n{told}"
        return printed

    def refused(self, *arguments: str) -> str:
        """Run a command line that the cloud refuses, and return what it told on stderr."""
        code, _, told = self._typed(arguments)
        assert (code, "Traceback" in told) == (3, False), told
        return told

    def mistaken(self, *arguments: str) -> str:
        """Run a command line that is the caller's mistake, and return what it told on stderr."""
        code, _, told = self._typed(arguments)
        assert (code, "Traceback" in told) == (2, False), told
        return told

    def stored(self) -> list[str]:
        """Names of all objects in the job store, in order, as far as this login may list them."""
        with self._login():
            return sorted(self._pipeline.store.list(""))

    def _typed(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with self._login(), redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments])
        printed, told = (each.detach().getvalue().decode() for each in (out, err))
        return code, printed, told

    def submit(self, name: str, items: Path, *command: str, chunk_size: int = 10, **more: str) -> str:
        """Submit a job and return its id. `more` are further flags."""
        options = ["--queue", "cpu", "--name", name, "--items", str(items), "--chunk-size", str(chunk_size), "--json"]
        options += [word for flag, value in more.items() for word in (f"--{flag.replace('_', '-')}", value)]
        return json.loads(self.tidemill("submit", *options, "--", *command))["job"]

    def train(self, name: str, every: str = "1s") -> str:
        """Submit an item with state, whose first attempt waits at step 100 of 200; returns the job's id."""
        program = (sys.executable, str(SGD), "{state}", "{output}", "0", "wait")
        options = ("--queue", "cpu", "--name", name, "--state", "--snapshot-every", every, "--json", "x")
        return json.loads(self.tidemill("submit", *options, "--", *program))["job"]

    def saved(self, job: str) -> bool:
        """Whether a snapshot of the first item holds something."""
        with self._login():
            newest = Snapshots(self._pipeline.store, job, 0).newest()
        return newest is not None and newest.origin > 0

    def status(self, job: str) -> dict[str, Any]:
        """The status from the CLI; `look` is cheaper for frequent checks."""
        return json.loads(self.tidemill("status", job, "--json", ok=(0, 1)))

    def refusals(self, job: str) -> list[str]:
        """Why receivers have not taken the message of a job's end."""
        with self._login():
            store = self._pipeline.store
            return [store.get(name).decode() for name in store.list(layout.told(job)) if name.endswith(".failed")]

    def results(self, job: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.tidemill("results", job, "--json").splitlines()]

    def look(self, job: str, *, fleet: bool = False) -> Status:
        """The status and the problems of the fleet, from the SDK in this process: starting the CLI takes as
        long as many items do."""
        with self._login():
            return self._pipeline.job(job).status(consumption=fleet)

    def lines(self, job: str, item: int) -> list[str]:
        """What an item printed, from the SDK in this process as well."""
        with self._login():
            return [line.said for line in self._pipeline.job(job).logs(item=item)]

    def done(self, job: str) -> int:
        """How many items have an outcome."""
        status = self.look(job)
        return status.succeeded + status.failed

    @contextmanager
    def _login(self) -> Iterator[None]:
        # Tests look often, on a clock that runs fast.
        reads = patch("tidemill.clouds.gcp.logs.READS", ReadLimit(most=10_000))
        with patch.dict(os.environ, self.person, clear=True), reads:
            yield

    @cached_property
    def _pipeline(self) -> Pipeline:
        """The pipeline with this login, which `_login` puts into the environment."""
        return Pipeline.load(self.person["TIDEMILL_PIPELINE"])


def advice(team: Any, cache: Path) -> dict[str, Any]:
    """What `tidemill advise` says of the queue, with a cache of its own. It waits longer than for a person."""

    def patient(calls: Sequence[Call], kept: Cache, seconds: float) -> list[Reply]:
        return ask_all(calls, kept, TIMEOUT_SECONDS)

    asking = replace(team, person={**team.person, "XDG_CACHE_HOME": str(cache)})
    with ExitStack() as patches:
        for cloud in ("aws", "gcp"):
            patches.enter_context(patch(f"tidemill.clouds.{cloud}.advice.ask_all", patient))
        for what in ("CONNECT", "READ"):
            patches.enter_context(patch(f"tidemill.clouds.aws.advice._{what}_SECONDS", TIMEOUT_SECONDS))
        return json.loads(asking.tidemill("advise", "--queue", "cpu", "--json"))


@dataclass(frozen=True)
class Team(Member):
    """A pipeline that is up."""

    cloud: Cloud
    project: Project
    outputs: dict[str, Any]
    person: dict[str, str]

    @property
    def bucket(self) -> str:
        return self.outputs["pipeline_uri"].removeprefix("s3://").partition("/")[0]

    def put_items(self, prefix: str, count: int, folder: Path) -> tuple[Path, list[str]]:
        """Put files into the team's data. Returns the list of items and each file's SHA-256."""
        s3 = client(self.cloud.env, "s3")
        digests = []
        for index in range(count):
            body = f"{prefix} {index}\n".encode() * (index + 1)
            digests.append(hashlib.sha256(body).hexdigest())
            s3.put_object(Bucket=DATA, Key=f"{prefix}/{index:05d}", Body=body)
        items = folder / f"{prefix}.txt"
        items.write_text("".join(f"s3://{DATA}/{prefix}/{index:05d}\n" for index in range(count)))
        return items, digests

    def read(self, uri: str) -> bytes:
        """An object that the member may read."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return client(self.person, "s3").get_object(Bucket=bucket, Key=key)["Body"].read()

    def names(self, prefix: str) -> list[str]:
        """Names in the job store, in order."""
        pages = (
            client(self.cloud.env, "s3").get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        )
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def team_up(cloud: Cloud, folder: Path, program: str | None = None, settings: Mapping[str, Any] | None = None) -> Team:
    """Bring the demo stack up.

    Args:
        cloud: The cloud to use.
        folder: An empty folder for the project.
        program: Program to use instead of the project's own.
        settings: Keys to set in the stack's config, in addition to its own.
    """
    env = cloud.env
    client(env, "s3").create_bucket(Bucket=DATA, CreateBucketConfiguration={"LocationConstraint": env["AWS_REGION"]})
    project = Project(folder, env, "demo-aws")
    with project.config() as config:
        config.update(settings or {})
    if program is None:
        project.up().ok()
    else:
        with project.program(program):
            project.up().ok()
    outputs = project.outputs()
    person = {**assume(env, outputs["submitter_role_arn"]), "TIDEMILL_PIPELINE": outputs["pipeline_uri"]}
    person["XDG_CACHE_HOME"] = str(folder / "cache")
    return Team(cloud, project, outputs, person)
