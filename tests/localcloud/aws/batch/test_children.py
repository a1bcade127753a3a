"""Children: what a container gets and what it cannot reach. Not proved: Docker's, ECS's and EC2's own behaviour."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.aws.accounts import service_client
from localcloud.cloud import ROOT
from tests.localcloud.aws.batch.account import REGION, Account, account, role
from tests.localcloud.waiting import sleeping, until


@pytest.fixture(scope="module")
def cloud() -> Iterator[Account]:
    with account() as made:
        yield made


@pytest.fixture(scope="module")
def queue(cloud: Account) -> str:
    return cloud.queue()


def sh(cloud: Account, script: str, **more: Any) -> str:
    return cloud.definition("sh", "-c", script, **more)


def output(cloud: Account, queue: str, definition: str, status: str = "SUCCEEDED", **more: Any) -> list[str]:
    job = cloud.run(queue, definition, **more)
    done = cloud.ended(job)
    assert done["status"] == status, done
    return cloud.lines(job)


def failure(cloud: Account, queue: str, definition: str) -> tuple[str, str]:
    """Status reason and container reason of a job that could not be started."""
    done = cloud.ended(cloud.run(queue, definition))
    container = done["attempts"][0]["container"]
    assert (done["status"], "exitCode" in container) == ("FAILED", False)
    return done["statusReason"], container["reason"]


@pytest.mark.namespaces
def test_the_environment_is_what_batch_and_the_definition_give(cloud: Account, queue: str) -> None:
    os.environ["LEAKS"] = "yes"
    job_role = role("ecs-tasks.amazonaws.com")
    definition = cloud.definition("env", environment=[{"name": "A", "value": "1"}], jobRoleArn=job_role)
    seen = dict(line.split("=", 1) for line in output(cloud, queue, definition))
    assert seen.pop("PATH").startswith(f"{sys.prefix}/bin:")
    assert seen.pop("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").startswith("/v2/credentials/")
    assert set(seen) == {
        "A", "HOME", "HOSTNAME", "AWS_BATCH_JOB_ID", "AWS_BATCH_JOB_ATTEMPT", "AWS_BATCH_JQ_NAME", "AWS_BATCH_CE_NAME",
        "AWS_EXECUTION_ENV", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP",
    }  # fmt: skip


@pytest.mark.namespaces
def test_a_child_sees_its_own_processes_and_a_root_it_cannot_write(cloud: Account, queue: str) -> None:
    script = """
    ls -d /proc/[0-9]* | wc -l
    for path in / /usr /etc /var /root; do touch $path/tidemill-test 2>/dev/null && echo wrote $path; done
    echo x > /tmp/own && echo x > /dev/shm/own && cat /tmp/own
    [ -e $HOSTS ] && echo sees what is temporary on the host
    mount -o remount,rw /usr 2>/dev/null && echo remounted
    [ -e $STATE/machines ] && echo sees localcloud
    exit 0
    """
    state = str(cloud.api._core.settings.state_dir)
    with tempfile.NamedTemporaryFile(dir="/tmp") as hosts:
        names = {"STATE": state, "HOSTS": hosts.name}
        environment = [{"name": name, "value": value} for name, value in names.items()]
        definition = sh(cloud, script, readonlyRootFilesystem=True, environment=environment)
        processes, *rest = output(cloud, queue, definition)
    assert int(processes) <= 3
    assert rest == ["x"]


@pytest.mark.namespaces
def test_children_of_a_machine_share_its_network_and_nothing_else_is_reachable(cloud: Account, queue: str) -> None:
    script = """
import os, socket, urllib.request
print(urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL"] + "/moto-api/", timeout=60).status)
server = socket.create_server(("127.0.0.1", 18083))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    print(type(error).__name__)
"""
    assert output(cloud, queue, cloud.definition("python3", "-c", script)) == ["200", "OSError"]


@pytest.mark.namespaces
def test_a_job_does_not_reach_localcloud_s_controls(cloud: Account, queue: str) -> None:
    script = """
import os, urllib.error, urllib.request
try:
    urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL"] + "/_localcloud/health", timeout=60)
except urllib.error.HTTPError as error:
    print(error.code)
"""
    assert output(cloud, queue, cloud.definition("python3", "-c", script)) == ["404"]


@pytest.mark.namespaces
def test_image_paths_are_part_of_the_image_wherever_they_lie(tmp_path: Path) -> None:
    assert tmp_path.is_relative_to("/tmp"), "else this shows nothing: only /tmp is hidden from a child"
    program = tmp_path / "image" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho runs; touch $0.x || echo read-only\n")
    program.chmod(0o755)
    with account(image_paths=(program.parent,)) as cloud:
        lines = output(cloud, cloud.queue(), cloud.definition(str(program)))
    assert (lines[0], lines[-1]) == ("runs", "read-only")


def test_the_job_role_is_at_the_credentials_address(cloud: Account, queue: str) -> None:
    job_role = role("ecs-tasks.amazonaws.com")
    script = "import boto3; print(boto3.client('sts', region_name='us-west-2').get_caller_identity()['Arn'])"
    arn = output(cloud, queue, cloud.definition("python3", "-c", script, jobRoleArn=job_role))[0]
    assert arn.startswith(f"arn:aws:sts::123456789012:assumed-role/{job_role.split('/')[-1]}/")


@pytest.mark.namespaces
def test_mounts_limits_and_shared_memory(cloud: Account, queue: str) -> None:
    volumes = [
        {"name": "cache", "host": {"sourcePath": "/var/lib/cache"}},
        {"name": "own"},
        {"name": "shared", "efsVolumeConfiguration": {"fileSystemId": "fs-1", "rootDirectory": "/"}},
    ]
    mounts = [
        {"sourceVolume": "cache", "containerPath": "/cache"},
        {"sourceVolume": "own", "containerPath": "/usr/share/own"},
        {"sourceVolume": "shared", "containerPath": "/shared", "readOnly": True},
    ]
    definition = sh(
        cloud,
        "cat /cache/seen; echo again >> /cache/seen; ls -A /usr/share/own; touch /usr/share/own/x && ls /usr/bin/env;"
        "touch /shared/x || echo no; ulimit -n; df -m /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2",
        mountPoints=mounts,
        volumes=volumes,
        ulimits=[{"name": "nofile", "softLimit": 99, "hardLimit": 99}],
        linuxParameters={"sharedMemorySize": 7, "initProcessEnabled": True},
    )
    one = cloud.queue(cloud.environment(instanceTypes=["c6i.large"], maxvCpus=2))
    first, second = output(cloud, one, definition), output(cloud, one, definition)
    assert first[-2:] == ["99", "7"]
    assert "no" in first
    assert "/usr/bin/env" in first
    assert "again" not in first
    assert second[0] == "again", "a host path outlives the child, on its machine"


def test_an_efs_folder_that_does_not_exist_stops_the_child(cloud: Account, queue: str) -> None:
    volumes = [{"name": "a", "efsVolumeConfiguration": {"fileSystemId": "fs-2", "rootDirectory": "/none"}}]
    mounts = [{"sourceVolume": "a", "containerPath": "/a"}]
    reason = failure(cloud, queue, cloud.definition("true", mountPoints=mounts, volumes=volumes))
    assert reason == ("Task failed to start", "CannotCreateVolumeError: fs-2 has no folder /none")


def test_secrets_come_with_the_execution_role(cloud: Account, queue: str) -> None:
    manager = service_client("secretsmanager", REGION)
    plain = manager.create_secret(Name="plain", SecretString="s3cret")["ARN"]
    keyed = manager.create_secret(Name="keyed", SecretString=json.dumps({"key": "value"}))["ARN"]
    service_client("ssm", REGION).put_parameter(Name="/parameter", Value="p", Type="SecureString")
    execution = role("ecs-tasks.amazonaws.com")
    secrets = [
        {"name": "PLAIN", "valueFrom": plain},
        {"name": "KEYED", "valueFrom": f"{keyed}:key::"},
        {"name": "PARAMETER", "valueFrom": "/parameter"},
    ]
    definition = sh(cloud, "echo $PLAIN $KEYED $PARAMETER", secrets=secrets, executionRoleArn=execution)
    assert output(cloud, queue, definition) == ["s3cret value p"]
    assert (execution, "secretsmanager:GetSecretValue", plain) in cloud.asked
    cloud.denied.add("secretsmanager:GetSecretValue")
    status_reason, reason = failure(cloud, queue, definition)
    cloud.denied.clear()
    assert status_reason.startswith("ResourceInitializationError: unable to pull secrets")
    assert "AccessDeniedException" in reason
    without = sh(cloud, "true", secrets=secrets)
    assert "no execution role" in failure(cloud, queue, without)[0]


def test_logs_go_to_the_definition_s_group_as_the_configured_role(cloud: Account) -> None:
    script = "#!/bin/sh\nmkdir -p /etc/ecs; echo ECS_ENABLE_AWSLOGS_EXECUTIONROLE_OVERRIDE=true > /etc/ecs/ecs.config\n"
    queue = cloud.queue(cloud.environment(launchTemplate=cloud.template(script)))
    cloud.logs.create_log_group(logGroupName="team")
    execution = role("ecs-tasks.amazonaws.com")
    log = {"logDriver": "awslogs", "options": {"awslogs-group": "team", "awslogs-stream-prefix": "cpu"}}
    script = "echo one; echo two >&2; printf three; head -c 20000 /dev/zero | tr '\\0' x"
    definition = sh(cloud, script, logConfiguration=log, executionRoleArn=execution)
    job = cloud.run(queue, definition)
    done = cloud.ended(job)
    ran = done["container"]
    assert ran["logStreamName"] == f"cpu/default/{ran['taskArn'].split('/')[-1]}"
    lines = cloud.lines(job, "team")
    assert lines[:2] == ["one", "two"]
    assert "".join(lines[2:]) == "three" + "x" * 20_000
    assert {who for who, what, _ in cloud.asked if what.startswith("logs:")} >= {execution, cloud.instance_role}
    assert (
        execution,
        "logs:PutLogEvents",
        f"arn:aws:logs:us-west-2:123456789012:log-group:team:log-stream:{ran['logStreamName']}",
    ) in cloud.asked


@pytest.mark.parametrize(("denied", "group"), [("logs:CreateLogStream", "team2"), ("", "no-such-group")])
def test_a_child_whose_log_stream_cannot_be_made_is_not_started(
    cloud: Account, queue: str, denied: str, group: str
) -> None:
    if denied:
        cloud.logs.create_log_group(logGroupName=group)
    cloud.denied |= {denied}
    log = {"logDriver": "awslogs", "options": {"awslogs-group": group}}
    status_reason, reason = failure(cloud, queue, sh(cloud, "true", logConfiguration=log))
    cloud.denied.clear()
    assert status_reason == "Task failed to start"
    assert reason.startswith("CannotStartContainerError: failed to initialize logging driver")


def test_log_streams_are_throttled_and_without_blocking_a_child_starts_all_the_same() -> None:
    with account(log_stream_rate=0) as cloud:
        queue = cloud.queue()
        cloud.logs.create_log_group(logGroupName="throttled")
        options = {"awslogs-group": "throttled", "awslogs-stream-prefix": "cpu"}
        log = {"logDriver": "awslogs", "options": options | {"mode": "non-blocking"}}
        children = [cloud.run(queue, sh(cloud, "echo $$", logConfiguration=log)) for _ in range(4)]
        assert {cloud.ended(each)["status"] for each in children} == {"SUCCEEDED"}
        blocking = sh(cloud, "true", logConfiguration={"logDriver": "awslogs", "options": options})
        array = cloud.ended(cloud.run(queue, blocking, size=4, retryStrategy={"attempts": 1}))
        assert array["arrayProperties"]["statusSummary"]["FAILED"] == 4


def test_a_command_that_does_not_exist_is_not_started(cloud: Account, queue: str) -> None:
    status_reason, reason = failure(cloud, queue, cloud.definition("no-such-program"))
    assert (status_reason, "No such file" in reason) == ("Task failed to start", True)


def test_when_the_program_ends_so_does_everything_it_started(cloud: Account, queue: str) -> None:
    output(cloud, queue, sh(cloud, "setsid sleep 4242 & sleep 0.1"))
    assert sleeping(4242) == []


@pytest.mark.namespaces
def test_nothing_outlives_a_daemon_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "daemon.py"
    program.write_text(
        textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(ROOT)!r})
        from tests.localcloud.aws.batch.account import account
        with account() as cloud:
            job = cloud.run(cloud.queue(), cloud.definition("sleep", "4343"))
            cloud.becomes(job, "RUNNING")
            machine = next(iter(cloud.api._fleet.machines.values()))
            print(machine.holder, flush=True)
            time.sleep(600)
        """)
    )
    daemon = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout
        holder = int(daemon.stdout.readline())
        assert len(sleeping(4343)) == 1
    finally:
        daemon.send_signal(signal.SIGKILL)
        daemon.wait(60)
    until(lambda: not sleeping(4343) and not Path(f"/proc/{holder}").exists())


@pytest.mark.namespaces(False)
def test_plain_processes_where_there_are_no_namespaces() -> None:
    with account(namespaces=False) as cloud:
        job_role = role("ecs-tasks.amazonaws.com")
        volumes = [{"name": "cache", "host": {"sourcePath": "/var/lib/cache"}}]
        definition = sh(
            cloud,
            "echo here > $CACHE/x; echo $CACHE; echo $AWS_ACCESS_KEY_ID; (sleep 4444 &) ; exec sleep 600",
            environment=[{"name": "CACHE", "value": "/cache"}],
            mountPoints=[{"sourceVolume": "cache", "containerPath": "/cache"}],
            volumes=volumes,
            jobRoleArn=job_role,
        )
        queue = cloud.queue()
        job = cloud.run(queue, definition)
        cloud.becomes(job, "RUNNING")
        until(lambda: sleeping(4444))
        cloud.batch.terminate_job(jobId=job, reason="enough")
        assert cloud.ended(job)["statusReason"] == "enough"
        lines = cloud.lines(job)
        assert lines[0].endswith("/var/lib/cache")
        assert lines[1].startswith("ASIA")
        until(lambda: not sleeping(4444))
        assert failure(cloud, queue, cloud.definition("no-such-program"))[0] == "Task failed to start"


def test_stopping_waits_for_what_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that boots would otherwise write to its disk while the disk is removed."""
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        goes_on.wait(300)
        sum(range(1_000_000))  # a stop that does not wait is over by then
        ended.set()

    with account(namespaces=False) as cloud:
        cloud.api._core.background(work)
        assert begun.wait(300)
        monkeypatch.setattr(cloud.api._fleet, "close", goes_on.set)
        cloud.api.stop()
        assert ended.is_set()


def test_stopping_ends_everything_soon() -> None:
    with account() as cloud:
        slow = cloud.queue(cloud.environment(launchTemplate=cloud.template("#!/bin/sh\nsleep 4545\n")))
        busy = cloud.queue(cloud.environment(maxvCpus=6, instanceTypes=["c6i.large"]))
        booting = cloud.run(slow, cloud.definition("true"))
        job = cloud.run(busy, sh(cloud, "sleep 4545 & trap '' TERM; wait; sleep 4545"), size=6)
        until(lambda: cloud.job(job)["arrayProperties"]["statusSummary"]["RUNNING"] == 6)
        assert cloud.job(booting)["status"] == "RUNNABLE"
        until(lambda: len(sleeping(4545)) >= 7)
        holders = [machine.holder for machine in cloud.api._fleet.machines.values()]
        start = time.monotonic()
        cloud.api.stop()
        assert time.monotonic() - start < 600, "it does not wait for what sleeps 4545 s"
    assert sleeping(4545) == []
    assert not [holder for holder in holders if Path(f"/proc/{holder}").exists()]


def test_settings_change_while_it_runs(cloud: Account) -> None:
    cloud.api.control["settings"]({"stop_seconds": 0.4})
    assert cloud.api._core.settings.stop_seconds == 0.4
    with pytest.raises(TypeError, match="no_such"):
        cloud.api.control["settings"]({"no_such": 1})
