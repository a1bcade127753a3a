"""One attempt of a child: its inputs, its process and its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import ClientError

from localcloud.aws.accounts import ACCOUNT, RoleRefusedError, role_credentials, service_client
from localcloud.aws.batch.core import Core, Json, now_ms
from localcloud.aws.batch.elastic import ElasticVolumes, UnmountableError
from localcloud.aws.batch.jobs import Attempt, Child
from localcloud.aws.batch.logs import LogRefusedError, LogShipper, Stream
from localcloud.aws.batch.machines import Machine, refused
from localcloud.machines import disk, namespaces
from localcloud.machines.images import Image, PullError
from localcloud.machines.namespaces import image_root, start_container

MACHINE_PATH = f"{sys.prefix}/bin:{disk.PATH}"
"""PATH in an image that represents this machine's root, with the virtual environment that localcloud runs in."""
BATCH_GROUP = "/aws/batch/job"
LAST_LINES_SECONDS = 30.0
"""How long an attempt waits for its last lines to be sent: a program that it left behind may keep their pipe open."""


@dataclass(frozen=True)
class Result:
    """How an attempt ended, in the terms of DescribeJobs."""

    exit_code: int | None
    reason: str | None
    status_reason: str


class StartError(Exception):
    """The container could not start. The arguments are the reasons of the container and of the attempt."""


class Run:
    """An attempt that is starting or running.

    Attributes:
        started: The program is running.
        timed_out: Its time limit has passed.
    """

    def __init__(self, core: Core, child: Child, machine: Machine, logs: LogShipper) -> None:
        self._core = core
        self._child = child
        self._logs = logs
        self._task = child.job.task
        self._elastic = ElasticVolumes(core, machine, child.job.region, self._task.role)
        self._id = uuid.uuid4().hex
        self._number = len(child.attempts) + 1
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: Result | None = None
        self._stream: Stream | None = None
        self._credentials: str | None = None
        self._killed = False
        self._ended: float | None = None
        self.machine = machine
        self.started = self.timed_out = False
        cluster = machine.environment.detail["ecsClusterArn"].replace(":cluster/", ":task/")
        self.attempt = Attempt(machine.arn, f"{cluster}/{self._id}", None)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Prepare and start the program. The caller does not hold the lock."""
        try:
            self._begin(self._task.container)
        except StartError as failure:
            self._failure = Result(None, *failure.args)
        except Exception as error:
            self._failure = Result(None, f"CannotStartContainerError: {error}", "Task failed to start")
            raise
        else:
            self.attempt.started = now_ms()
            self.started = True
        finally:
            with self._core.lock:
                self._core.changed.notify_all()

    def _begin(self, container: Json) -> None:
        stream = self._open_log(container)
        self._stream, self.attempt.log_stream = stream, stream.name
        image = self._pull(container["image"])
        environment = self._environment(container, image)
        ours, theirs = os.pipe()
        try:
            problem = self._launch(container, image, environment, theirs)
        finally:
            os.close(theirs)
            self._logs.follow(ours, stream)
        if problem:
            raise StartError(f"CannotStartContainerError: {problem}", "Task failed to start")

    def _pull(self, reference: str) -> Image | None:
        """Return the image's files, or None for this machine's root."""
        try:
            if reference in self._core.settings.unpullable:
                raise PullError(f"pull access denied for {reference}")
            image = self._core.registry.find(reference)
        except PullError as error:
            reason = f"CannotPullContainerError: Error response from daemon: {error}"
            raise StartError(reason, "Task failed to start") from None
        if image and not self.machine.holder:
            reason = f"CannotStartContainerError: {namespaces.needed(reference, refused(self._core))}"
            raise StartError(reason, "Task failed to start")
        return image

    def poll(self) -> Result | None:
        """Return how the attempt ended, or None while it runs."""
        process = self._process
        code = process.poll() if process else None
        if self.machine.gone and (self._failure or code is not None):
            ended: Result | None = Result(None, None, f"Host EC2 (instance {self.machine.id}) terminated.")
        elif self._failure:
            ended = self._failure
        elif code is None or not self.started:
            return None
        else:
            ended = Result(code if code >= 0 else 128 - code, None, "Essential container in task exited")
        self._ended = self._ended or time.monotonic()
        late = self._stream and not self._stream.closed.is_set() and self._process
        if late and time.monotonic() - self._ended < LAST_LINES_SECONDS:
            return None
        self.machine.credentials.remove(self._credentials)
        return ended

    def signal(self, number: int) -> None:
        """Send a signal to the program: process 1 of its namespace."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        with self._core.lock:
            self._killed = True
            process = self._process
        if process and process.poll() is None:
            process.kill()

    # Inputs

    def _open_log(self, container: Json) -> Stream:
        configuration = container.get("logConfiguration", {})
        options = configuration.get("options", {})
        group = options.get("awslogs-group")
        definition = self._child.job.definition.split("/")[-1].split(":")[0]
        prefix = options.get("awslogs-stream-prefix", definition)
        override = self.machine.config.get("ECS_ENABLE_AWSLOGS_EXECUTIONROLE_OVERRIDE", "").lower() == "true"
        role = self._task.container.get("executionRoleArn") if override else None
        name = f"{prefix}/default/{self._id}"
        region = options.get("awslogs-region", self._child.job.region)
        stream = Stream(group or BATCH_GROUP, name, role or self.machine.role_arn, region)
        try:
            create = options.get("awslogs-create-group") == "true"
            self._logs.open(stream, group is not None, create, options.get("mode") != "non-blocking")
        except LogRefusedError as error:
            reason = f"failed to initialize logging driver: failed to create Cloudwatch log stream: {error}"
            raise StartError(f"CannotStartContainerError: {reason}", "Task failed to start") from None
        return stream

    def _environment(self, container: Json, image: Image | None) -> dict[str, str]:
        child, job = self._child, self._child.job
        environment = {"PATH": disk.PATH if image else MACHINE_PATH, "HOME": "/"}
        environment |= image.variables if image else {}
        environment |= {
            "HOSTNAME": f"ip-127-0-0-1.{job.region}.compute.internal",
            "AWS_BATCH_JOB_ID": child.id,
            "AWS_BATCH_JOB_ATTEMPT": str(self._number),
            "AWS_BATCH_JQ_NAME": job.queue.split("/")[-1],
            "AWS_BATCH_CE_NAME": self.machine.environment.detail["computeEnvironmentName"],
            "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._core.settings.port}",
            "AWS_ALLOW_HTTP": "true",
        }
        if child.index is not None:
            environment |= {"AWS_BATCH_JOB_ARRAY_INDEX": str(child.index), "AWS_BATCH_JOB_ARRAY_SIZE": str(job.size)}
        if role := self._task.role:
            environment |= self._role(role)
        environment |= {each["name"]: each.get("value", "") for each in container.get("environment", [])}
        environment |= {each["name"]: self._secret(each["valueFrom"]) for each in container.get("secrets", [])}
        return environment

    def _role(self, role: str) -> dict[str, str]:
        if self.machine.holder:
            self._credentials = self.machine.credentials.add(role, self._id)
            return {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": self._credentials}
        try:
            given = role_credentials(role, self._id, "ecs-tasks.amazonaws.com")
        except RoleRefusedError as error:
            raise StartError(f"CannotStartContainerError: {error}", "Task failed to start") from None
        return {
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["Token"],
        }

    def _secret(self, value_from: str) -> str:
        """Fetch a secret's value as the execution role:
        https://docs.aws.amazon.com/batch/latest/userguide/specifying-sensitive-data-secrets.html"""
        role, region = self._task.container.get("executionRoleArn", ""), self._child.job.region
        parts = (
            value_from
            if value_from.startswith("arn:")
            else f"arn:aws:ssm:{region}:{ACCOUNT}:parameter/{value_from.lstrip('/')}"
        ).split(":")
        identity = ":".join(parts[:7])
        manager = parts[2] == "secretsmanager"
        action = "secretsmanager:GetSecretValue" if manager else "ssm:GetParameters"
        try:
            if not role or not self._core.host.authorize(role, action, identity, region):
                raise LookupError(
                    f"AccessDeniedException: {role or 'no execution role'} may not {action} on {identity}"
                )
            if manager:
                content = service_client("secretsmanager", region).get_secret_value(SecretId=identity)["SecretString"]
                key = parts[7] if len(parts) > 7 else ""
                return str(json.loads(content)[key]) if key else content
            name = "/" + identity.split(":parameter/", 1)[1]
            return service_client("ssm", region).get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
        except (LookupError, ClientError, ValueError) as error:
            reason = f"ResourceInitializationError: unable to pull secrets or registry auth: {error}"
            raise StartError(reason, reason) from None

    # The process

    def _launch(self, container: Json, image: Image | None, environment: dict[str, str], output: int) -> str:
        argv = list(container.get("command") or [])
        if image:
            argv = [*(image.config.get("Entrypoint") or []), *(argv or image.config.get("Cmd") or [])]
        if not argv:
            return "no command specified"
        mounts = self._volumes(container)
        with self._core.lock:
            if self._killed or self.machine.gone or self._child.ending:
                return "stopped before it was started"
        description = self._describe(container, image, mounts) | {"argv": argv, "env": environment}
        process, problem = start_container(self._core.settings.state_dir, self.machine.holder, description, output)
        self._take(process)
        return problem

    def _take(self, process: subprocess.Popen[bytes]) -> None:
        with self._core.lock:
            self._process = process
            killed = self._killed
        if killed:
            self.kill()

    def _describe(self, container: Json, image: Image | None, mounts: list[Json]) -> Json:
        linux = container.get("linuxParameters", {})
        settings = self._core.settings
        shared = linux.get("sharedMemorySize", 64)
        base, masks = image_root(image.root if image else None, settings.state_dir, settings.image_paths)
        return {
            "cwd": (image.config.get("WorkingDir") if image else None) or "/",
            "readonly": container.get("readonlyRootFilesystem", False),
            "init": linux.get("initProcessEnabled", False),
            "limits": [[each["name"], each["softLimit"], each["hardLimit"]] for each in container.get("ulimits", [])],
            "mounts": [
                *base,
                {"kind": "tmpfs", "target": "/dev/shm", "options": f"size={shared}m,mode=1777"},
                *(_tmpfs(each) for each in linux.get("tmpfs", [])),
                *masks,
                *mounts,
                {"kind": "proc"},
            ],
        }

    def _volumes(self, container: Json) -> list[Json]:
        volumes = self._task.volumes
        sources = {each["name"]: self._source(each) for each in volumes}
        elastic = {each["name"]: each["efsVolumeConfiguration"] for each in volumes if "efsVolumeConfiguration" in each}
        unwritable = {name for name, volume in elastic.items() if not self._elastic.may_write(volume)}
        return [
            {
                "kind": "bind",
                "source": str(sources[each["sourceVolume"]]),
                "target": each["containerPath"],
                "readonly": each.get("readOnly", False) or each["sourceVolume"] in unwritable,
            }
            for each in container.get("mountPoints", [])
        ]

    def _source(self, volume: Json) -> Path:
        if elastic := volume.get("efsVolumeConfiguration"):
            try:
                return self._elastic.folder(elastic)
            except UnmountableError as error:
                raise StartError(f"CannotCreateVolumeError: {error}", "Task failed to start") from None
        path = volume.get("host", {}).get("sourcePath") or f"/var/lib/docker/volumes/{self._id}-{volume['name']}"
        source = self.machine.path(path)
        if not source.exists():  # Docker creates a missing source
            source.mkdir(parents=True, exist_ok=True)
        return source


def _tmpfs(each: Json) -> Json:
    return {"kind": "tmpfs", "target": each["containerPath"], "options": f"size={each['size']}m"}
