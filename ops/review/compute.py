"""Machines under running jobs: what replaces them, stops them or lets an autoscaler stop them."""

import re
from collections.abc import Iterator
from typing import Any

from ops.review.diffs import at, parts, roots
from ops.review.document import Step
from ops.review.models import Finding, Severity
from ops.review.values import is_unknown

ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
QUEUE = "aws:batch/jobQueue:JobQueue"
OF_MARKET = re.compile(r"-market-(spot|on-demand)$")
"""Ends the name of a job queue of jobs that ask for one market."""
GROUPS = (
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
)
AUTOSCALERS = ("gcp:compute/regionAutoscaler:RegionAutoscaler", "gcp:compute/autoscaler:Autoscaler")
TEMPLATES = (
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
    "gcp:compute/instanceTemplate:InstanceTemplate",
)

_SEALED = {
    "aws:ec2/launchTemplate:LaunchTemplate": (
        "blockDeviceMappings[0].ebs.kmsKeyId",
        "the service-linked roles of Auto Scaling and Spot",
    ),
    **dict.fromkeys(TEMPLATES, ("disks[0].diskEncryptionKey.kmsKeySelfLink", "Compute Engine's service agent")),
}
"""Where templates name the key of disks, and whom it has to admit.
Sources: https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html and
https://cloud.google.com/compute/docs/disks/customer-managed-encryption"""

# Networks of running machines: they cannot be deleted before these have stopped.
_WHOLE_NETWORKS = ("aws:ec2/vpc:Vpc", "gcp:compute/network:Network")
_NETWORKS = (*_WHOLE_NETWORKS, "aws:ec2/subnet:Subnet", "gcp:compute/subnetwork:Subnetwork")

# A change of these replaces the machines of a compute environment in place.
# Source: https://docs.aws.amazon.com/batch/latest/userguide/infrastructure-updates.html
_INFRASTRUCTURE = frozenset(
    {
        "allocationStrategy", "bidPercentage", "ec2Configurations", "ec2KeyPair", "imageId", "instanceRole",
        "instanceTypes", "launchTemplate", "placementGroup", "securityGroupIds", "subnets", "tags", "type",
    }
)  # fmt: skip
# Values of a group's fields with which no machine stops while it works.
# Source: https://cloud.google.com/compute/docs/reference/rest/v1/regionInstanceGroupManagers
_GROUP_RULES: tuple[tuple[str, Any, str], ...] = (
    ("updatePolicy.type", "OPPORTUNISTIC", "Compute Engine replaces running machines with the new template"),
    ("updatePolicy.instanceRedistributionType", "NONE", "Compute Engine moves machines between zones"),
    ("instanceLifecyclePolicy.defaultActionOnFailure", "DO_NOTHING", "failed machines are recreated"),
    ("targetSize", None, "each `up` sets the number of machines and removes busy ones"),
    ("autoHealingPolicies", None, "machines that do not answer a health check are recreated"),
)


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `jobs-interrupted`."""
    staying = any(step.after for step in steps if step.type == ENVIRONMENT or step.type in GROUPS)
    for step in steps:
        if step.type == ENVIRONMENT:
            yield from _environment(step)
        elif step.type == QUEUE:
            yield from _queue(step)
            if staying and step.op == "create" and (found := OF_MARKET.search(step.name)):
                yield _choice(step, found[1])
        elif step.type in GROUPS:
            yield from _group(step)
        elif step.type in AUTOSCALERS:
            yield from _autoscaler(step)
        elif step.type in _NETWORKS and (step.op == "replace" or (step.op == "delete" and staying)):
            yield _network(step)
        elif step.type in _SEALED and step.op in ("create", "update", "replace"):
            yield from _sealed(step)
        if step.type in TEMPLATES and step.op == "replace":
            title = "new template: new machines use it, running ones keep theirs"
            yield Finding("low", "jobs-interrupted", step.name, step.urn, title, _because(step))


def _sealed(step: Step) -> Iterator[Finding]:
    """A key of the company's own for disks; one that this stack makes admits whoever starts machines."""
    path, admits = _SEALED[step.type]
    old, new = (at(side, parts(path)) for side in (step.old, step.new))
    if isinstance(new, str) and not is_unknown(new) and new != old:
        title = "disks of new machines need another key: none starts unless its policy admits who starts them"
        yield Finding("medium", "jobs-interrupted", step.name, step.urn, title, (f"{new} has to admit {admits}.",))


def _network(step: Step) -> Finding:
    verb = "replaced" if step.op == "replace" else "deleted"
    title = f"network is {verb}: up fails half-way while machines are in it"
    later = "Let the rungs drain first, or run `pulumi up` again when the machines have stopped."
    # With the whole network go its peerings, and whatever else is in it.
    severity: Severity = "critical" if step.type in _WHOLE_NETWORKS else "high"
    return Finding(severity, "jobs-interrupted", step.name, step.urn, title, (*_because(step), later))


def _finding(step: Step, title: str, *details: str) -> Finding:
    return Finding("high", "jobs-interrupted", step.name, step.urn, title, details)


def _because(step: Step) -> tuple[str, ...]:
    return (f"Replaced because of {', '.join(sorted(step.replace_reasons))}.",) if step.replace_reasons else ()


def _protected(step: Step) -> tuple[str, ...]:
    return ("It is protected: the engine stops here until tidemill:allow says [replace].",) if step.stopped else ()


def _environment(step: Step) -> Iterator[Finding]:
    if step.op == "replace":
        title = "compute environment is replaced: jobs on its machines are killed and start again"
        yield _finding(step, title, *_because(step), *_protected(step))
    elif step.op == "delete":
        title = "compute environment is deleted: jobs on its machines are killed"
        yield _finding(step, title, *_protected(step))
    elif step.op == "update":
        yield from _updated(step)


def _updated(step: Step) -> Iterator[Finding]:
    begun = {root.split(".")[1] for root in roots(step) if root.startswith("computeResources.")}
    if "computeResources" in roots(step):
        old, new = (side.get("computeResources") or {} for side in (step.old, step.new))
        if isinstance(old, dict) and isinstance(new, dict):
            begun |= {key for key in {*old, *new} if old.get(key) != new.get(key)}
    causes = sorted(begun & _INFRASTRUCTURE)
    if causes:
        policy = step.new.get("updatePolicy")
        policy = policy if isinstance(policy, dict) else {}
        if policy.get("terminateJobsOnUpdate"):
            told = "updatePolicy ends running jobs at once (terminateJobsOnUpdate)."
        else:
            told = f"Running jobs get {policy.get('jobExecutionTimeoutMinutes', 30)} minutes, then they are killed."
        yield _finding(step, f"infrastructure update: the machines are replaced in place ({', '.join(causes)})", told)
    if step.new.get("state") == "DISABLED" and step.old.get("state") != "DISABLED":
        yield _finding(step, "compute environment is disabled: it gets no more jobs")


def _queue(step: Step) -> Iterator[Finding]:
    if step.op in ("delete", "replace"):
        verb = "deleted" if step.op == "delete" else "replaced"
        # Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_DeleteJobQueue.html
        yield _finding(step, f"job queue is {verb}: all its waiting and running jobs end", *_because(step))
    elif step.new.get("state") == "DISABLED" and step.old.get("state") != "DISABLED":
        yield _finding(step, "job queue is disabled: it refuses submits")


def _choice(step: Step, market: str) -> Finding:
    """A market that jobs may choose from now on. On-Demand machines cost more than what they had first."""
    severity: Severity = "medium" if market == "on-demand" else "low"
    title = f"jobs may ask for {market} machines alone (per_job.markets)"
    return Finding(severity, "capacity", step.name, step.urn, title)


def _group(step: Step) -> Iterator[Finding]:
    if step.op in ("replace", "delete"):
        verb = "replaced" if step.op == "replace" else "deleted"
        title = f"machine group is {verb}: its machines stop; their chunks are delivered again"
        yield _finding(step, title, *_because(step), *_protected(step))
        return
    changed = {root.split(".")[0] for root in roots(step)}
    if "versions" in changed and at(step.new, ("updatePolicy", "type")) == "PROACTIVE":
        yield _finding(step, "new template at once: Compute Engine replaces running machines (updatePolicy PROACTIVE)")
    for path, wanted, means in _GROUP_RULES:
        old, new = at(step.old, parts(path)), at(step.new, parts(path))
        if step.op == "update" and new not in (old, wanted):
            yield _finding(step, f"{path} no longer protects busy machines", f"{means}.")


def _autoscaler(step: Step) -> Iterator[Finding]:
    path = parts("autoscalingPolicy.mode")
    old, new = at(step.old, path), at(step.new, path)
    if step.op == "update" and old != new and new not in ("ONLY_SCALE_OUT", "OFF"):
        yield _finding(step, "autoscaler may scale in and then also removes busy machines")
