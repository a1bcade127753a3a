"""Reclaims by hand: Spot machines get their notice, as a cloud gives it before it takes them back."""

from __future__ import annotations

import re

from localcloud.cloud import CloudError, GcpCloud, Localcloud


def reclaim(cloud: Localcloud, job: str | None = None, count: int = 1) -> list[str]:
    """Give Spot machines their notice. Return their names.

    Args:
        cloud: The localcloud; it must run.
        job: Id or name of a job: only machines that work on it.
        count: How many, or as many as there are.

    Raises:
        CloudError: There is none, or no localcloud runs.
    """
    on_compute = isinstance(cloud, GcpCloud)
    names = (compute_machines if on_compute else batch_machines)(cloud, job)[:count]
    if not names:
        works = f"works on {job}" if job else "runs"
        raise CloudError(f"No Spot machine without a notice {works}. Machines start a while after a submit.")
    for name in names:
        cloud.control("compute/preempt" if on_compute else "batch/reclaim", instance=name)
    return names


def batch_machines(cloud: Localcloud, job: str | None) -> list[str]:
    """Batch's Spot machines without a notice, the busiest first; with a job, those that run children of it."""
    of_job = re.compile("" if job is None else rf"{re.escape(job)}(-[0-9a-f]{{8}})?-r\d")
    wanted = {child["id"] for child in cloud.control("batch/children")["children"] if of_job.match(child["name"])}
    machines = cloud.control("batch/machines")["machines"]
    chosen = [
        each
        for each in machines
        if each["market"] == "spot" and not each["doomed"] and (job is None or wanted.intersection(each["children"]))
    ]
    return [each["instance"] for each in sorted(chosen, key=lambda each: -len(each["children"]))]


def compute_machines(cloud: Localcloud, job: str | None) -> list[str]:
    """Compute's running Spot machines without a notice, those with a container first; with a job, those that have
    logged lines of it. Compute knows of no jobs."""
    of_job = re.compile("" if job is None else rf"{re.escape(job)}(-[0-9a-f]{{8}})?")
    logged = {} if job is None else cloud.control("logs/jobs")["nodes"]
    chosen = [
        each
        for each in cloud.control("compute/list")["instances"]
        if each["spot"] and each["status"] == "RUNNING" and not each["preempted"]
        if job is None or any(map(of_job.fullmatch, logged.get(each["name"], ())))
    ]
    return [each["name"] for each in sorted(chosen, key=lambda each: not each["containers"])]
