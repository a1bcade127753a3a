"""Reviewing a preview of 2,000 changes on the command line: one process that reads, compares and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import figure
from ops.project import ROOT
from ops.review.document import VERSION

CHANGES = 2000
RUNS = 3
LIMIT_BYTES = 65_536
_TIMEOUT_SECONDS = 120
_URN = "urn:pulumi:wide::tidemill::tidemill:index:Pipeline"
_SUBNETS = [f"subnet-{number:017x}" for number in range(6)]


def main() -> None:
    """Print a table and the figures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        document, comment = folder / "wide.json", folder / "comment.md"
        document.write_text(json.dumps(wide(CHANGES)))
        seconds, peaks = zip(*(_review(document, comment) for _ in range(RUNS)), strict=True)
        print(f"{'preview document':<44} {document.stat().st_size / 2**20:>8.1f} MiB")
        print(f"{'comment':<44} {comment.stat().st_size:>8} bytes")
        figure("review-2000-seconds", min(seconds), "s", 2)
        figure("review-2000-peak-mib", max(peaks), "MiB", 300)
        figure("review-2000-comment-bytes", comment.stat().st_size, "bytes", LIMIT_BYTES)


def _review(document: Path, comment: Path) -> tuple[float, float]:
    """Return wall seconds and peak memory in MiB of one run."""
    command = [sys.executable, "-m", "ops", "review", str(document), "--markdown", str(comment)]
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    try:
        # wait4 reports the memory of this process alone.
        _, status, usage = _waited(process, start + _TIMEOUT_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 5):
        raise SystemExit(f"ops review ended with {code}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def _waited(process: subprocess.Popen, deadline: float) -> tuple[int, int, Any]:
    while time.monotonic() < deadline:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return pid, status, usage
        time.sleep(0.005)
    raise SystemExit(f"ops review: not within {_TIMEOUT_SECONDS} s")


def wide(changes: int) -> dict[str, Any]:
    """Return a preview document with that many changes: a fifth of each kind that a stack has."""
    kinds = (_environment, _role, _log_group, _bucket, _instance_template)
    steps = [kinds[number % len(kinds)](number) for number in range(changes)]
    return {
        "version": VERSION,
        "stack": "wide",
        "cloud": "aws",
        "region": "us-east-1",
        "environment": "dev",
        "config": {},
        "preview": {"steps": steps, "diagnostics": [], "changeSummary": {}},
        "policies": [],
        "waivers": [],
        "errors": [],
        "exit_code": 0,
    }


def _step(
    op: str, kind: str, name: str, *, old: dict[str, Any], new: dict[str, Any], diff: list[str]
) -> dict[str, Any]:
    detailed = {path.rstrip("!"): {"kind": "update-replace" if path.endswith("!") else "update"} for path in diff}
    states = {"oldState": {"inputs": old, "protect": True}, "newState": {"inputs": new, "protect": True}}
    return {
        "op": op,
        "urn": f"{_URN}${kind}::{name}",
        **({"oldState": states["oldState"]} if op == "delete" else states),
        "detailedDiff": detailed,
        "replaceReasons": [path.rstrip("!") for path in diff if path.endswith("!")],
    }


def _environment(number: int) -> dict[str, Any]:
    def inputs(most: int, subnets: int) -> dict[str, Any]:
        types = [f"{family}.{size}xlarge" for family in ("c6i", "c7i", "m6i", "m7i") for size in (2, 4, 8)]
        resources = {
            "type": "SPOT",
            "maxVcpus": most,
            "minVcpus": 0,
            "instanceTypes": types,
            "subnets": _SUBNETS[:subnets],
        }
        return {"computeResources": resources, "updatePolicy": {"jobExecutionTimeoutMinutes": 360}}

    paths = ["computeResources.maxVcpus", "computeResources.subnets[3]"]
    kind = "aws:batch/computeEnvironment:ComputeEnvironment"
    return _step("update", kind, f"queue-{number}-spot", old=inputs(64, 3), new=inputs(512, 4), diff=paths)


def _role(number: int) -> dict[str, Any]:
    def inputs(prefix: str) -> dict[str, Any]:
        objects = [f"arn:aws:s3:::features/{prefix}{part}/*" for part in range(10)]
        actions = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:GetObjectTagging"]
        statement = {"Effect": "Allow", "Action": actions, "Resource": objects}
        return {"role": f"job-{number}", "policy": json.dumps({"Version": "2012-10-17", "Statement": [statement]})}

    return _step(
        "update", "aws:iam/rolePolicy:RolePolicy", f"job-{number}", old=inputs("a"), new=inputs("b"), diff=["policy"]
    )


def _log_group(number: int) -> dict[str, Any]:
    old, new = ({"name": f"logs-{number}", "retentionInDays": days} for days in (90, 14))
    return _step(
        "update", "aws:cloudwatch/logGroup:LogGroup", f"logs-{number}", old=old, new=new, diff=["retentionInDays"]
    )


def _bucket(number: int) -> dict[str, Any]:
    return _step(
        "delete", "aws:s3/bucket:Bucket", f"store-{number}", old={"bucket": f"store-{number}"}, new={}, diff=[]
    )


def _instance_template(number: int) -> dict[str, Any]:
    old, new = ({"blockDeviceMappings": [{"ebs": {"volumeSize": size}}]} for size in (150, 350))
    paths = ["blockDeviceMappings[0].ebs.volumeSize!"]
    return _step("replace", "aws:ec2/launchTemplate:LaunchTemplate", f"machines-{number}", old=old, new=new, diff=paths)


if __name__ == "__main__":
    main()
