"""Every cause, in the order in which they are looked at. docs/explain.md is written from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["well", "turn", "act", "never"]
KINDS: dict[Kind, str] = {
    "well": "the job progresses, or is done",
    "turn": "the job waits, and you need not do anything",
    "act": "somebody must do something",
    "never": "as it stands, the job cannot run",
}
FORGOTTEN = "the queue does not know it (any more)"
GONE = "it is not done, and the queue no longer holds it"
"""Why a chunk is lost, where the cloud gives no reason."""


@dataclass(frozen=True)
class Cause:
    """A cause as the table has it.

    Attributes:
        code: Stable: scripts may compare it. `A` is AWS, `G` is GCP, `L` comes from the job's own records.
        kind: Its class; a rule may state a milder one.
        title: In a few words.
        seen: Where the fact comes from.
        do: What to do, for the page.
        owner: Whether the stack's owner does it.
        passing: Whether a healthy queue may show it for a while. Such a cause counts only when it has lasted.
        page: The document that describes it.
    """

    code: str
    kind: Kind
    title: str
    seen: str
    do: str
    owner: bool = False
    passing: bool = False
    page: str = "docs/explain.md"

    @property
    def docs(self) -> str:
        """Where it is described."""
        return f"{self.page}#{self.code.lower()}"


CAUSES = (
    # Ended, or never delivered.
    Cause("L11", "well", "finished", "every chunk has a record", "`tidemill failures JOB`, if items have failed"),
    Cause("L9", "act", "cancelled, at its limit, or lost", "the tombstone, `spent/`, deliveries",
        "`tidemill resume JOB`"),
    Cause("A15", "act", "Batch has given it up", "the status reason after `jobStateTimeLimitActions`",
        "remove the reason that Batch names, then `tidemill resume JOB`"),
    Cause("A17", "act", "Batch has forgotten it", "a round names an array that Batch does not know",
        "`tidemill resume JOB`"),
    Cause("G2", "act", "its submit was cut off", "`published/` lacks arrays",
        "submit the same again, or `tidemill resume JOB`"),
    Cause("G14", "act", "dead letters", "the dead-letter subscription",
        "`tidemill failures JOB`, then `tidemill retry JOB --dead`"),
    Cause("G15", "act", "its messages expired", "age of the messages, and the subscription's retention",
        "`tidemill resume JOB`"),
    Cause("G16", "act", "delivered, and dropped without a record", "an empty backlog, and no record",
        "`tidemill logs JOB --worker`, then `tidemill resume JOB`"),
    Cause("L12", "turn", "it waits for other jobs", "`after` and the other jobs' records", "wait"),
    # The queue.
    Cause("A1", "act", "the queue is gone or disabled", "DescribeJobQueues", "`pulumi up`, or enable the queue",
        owner=True),
    Cause("A2", "act", "the queue is invalid", "DescribeJobQueues", "read Batch's reason; usually `pulumi up`",
        owner=True, passing=True),
    Cause("A3", "act", "no compute environment can start machines", "DescribeComputeEnvironments",
        "enable one, or mend what Batch's reason names", owner=True),
    Cause("G1", "act", "the topic or its subscription is gone or wrong", "Pub/Sub", "`pulumi up`", owner=True),
    Cause("G11", "act", "the reconciler does not run", "age of its report",
        "look at its schedule and its function: `tidemill doctor` has the command", owner=True),
    # Machines.
    Cause("A4", "never", "one container is larger than the queue's limit",
        "the head child's status reason, and the environments' `maxvCpus`",
        "ask for less, or the owner raises `max_cpus`", passing=True),
    Cause("A5", "never", "no machine type is large enough",
        "the head child's status reason, and the descriptor's machine types",
        "ask for less with `cpus` or `memory_mib`, or the owner adds types", passing=True),
    Cause("A7", "act", "Batch calls a compute environment invalid", "the head child's status reason",
        "mend what Batch's reason names", owner=True, passing=True),
    Cause("A10", "act", "the account's quota is too small", "GetServiceQuota, and the vCPUs that Batch wants",
        "`python -m ops quotas` shows the quotas; request more", owner=True, passing=True),
    Cause("A6", "act", "the cloud is short of machines", "the head child's status reason",
        "wait; or the owner adds machine types, zones or an On-Demand rung", owner=True, passing=True),
    Cause("A11", "act", "machines were asked for, and none has joined",
        "`desiredvCpus`, and nothing runs in the queue",
        "look at the machines: route or proxy to the ECS endpoint, image, key of disks, profile, launch template",
        owner=True, passing=True),
    Cause("A18", "act", "Batch gives another reason", "the head child's status reason", "read Batch's words",
        passing=True),
    Cause("G3", "act", "the autoscaler is switched off", "the reconciler's report: `MODE_OFF`", "`pulumi up`",
        owner=True),
    Cause("G7", "act", "the project's quota is too small",
        "the reconciler's report: errors, `NOT_ENOUGH_QUOTA_AVAILABLE`",
        "`python -m ops quotas` shows the quotas; request more", owner=True, passing=True),
    Cause("G8", "act", "machines cannot be created", "the reconciler's report: errors", "mend what Google names",
        owner=True, passing=True),
    Cause("G6", "act", "the cloud is short of machines", "the reconciler's report: stockouts",
        "wait; or the owner adds machine types or an On-Demand rung", owner=True, passing=True),
    Cause("G4", "act", "the autoscaler sees no metric",
        "the reconciler's report: `MISSING_CUSTOM_METRIC_DATA_POINTS`", "check the metric's filter: `pulumi up`",
        owner=True, passing=True),
    Cause("G10", "act", "no machine is healthy", "the reconciler's report: `ALL_INSTANCES_UNHEALTHY`",
        "look at the machines: image, driver, disk", owner=True, passing=True),
    Cause("G17", "act", "the autoscaler gives another reason", "the reconciler's report: status details",
        "read Google's words", owner=True, passing=True),
    Cause("G5", "turn", "the queue is full", "the reconciler's report: `CAPPED_AT_MAX_NUM_REPLICAS`",
        "wait, or the owner raises `max_cpus`"),
    Cause("G12", "turn", "the next rung is not open yet", "the reconciler's report: `open`", "wait"),
    Cause("G13", "turn", "others are ahead", "the backlog's metric, and the age of its oldest message", "wait"),
    Cause("A8", "turn", "the queue is full", "`desiredvCpus` and `maxvCpus`", "wait, or the owner raises `max_cpus`"),
    Cause("A9", "turn", "others are ahead", "GetJobQueueSnapshot", "wait"),
    Cause("A16", "turn", "a rung is off or changes", "DescribeComputeEnvironments", "wait; the owner enables it",
        owner=True),
    # Containers.
    Cause("A12", "act", "the image cannot be pulled", "the attempts' container reasons",
        "push the image, or give the role access", owner=True),
    Cause("G9", "act", "machines cannot run the worker", "`fleet/errors/` since the round began",
        "mend what the record names: image, driver, disk", owner=True, passing=True),
    Cause("A13", "act", "the container ends before the worker starts", "the attempts' exit codes and reasons",
        "correct the image's entry point, or ask for more memory"),
    Cause("A14", "act", "the worker gives up", "the attempts' exit codes (72, 73)",
        "`tidemill logs JOB --worker` says why; then submit again, or the owner runs `pulumi up`"),
    Cause("L2", "act", "the program does not start", "`start_failures/`",
        "`tidemill logs JOB`; correct the code and submit it again"),
    # Items.
    Cause("L7", "act", "a store refuses", "reasons of failed items, exit code 71, attempts that ended with `store`",
        "check the rights of jobs on the bucket, then `tidemill retry JOB --failed`", owner=True),
    Cause("L3", "act", "most items fail", "the newest 200 outcomes",
        "`tidemill failures JOB`; cancel, correct, submit again"),
    Cause("L4", "act", "items run out of memory, or kill their worker",
        "reasons of failed items, and attempts that died", "submit with a larger `memory_mib`, or `memory_max_mib`"),
    # Speed.
    Cause("L5", "act", "one chunk holds up the end", "attempt markers of the last chunks",
        "`tidemill logs JOB --item N`; a shorter `timeout_seconds` next time"),
    Cause("L6", "act", "reclaims take most of the work", "`drained/` and `done/` of half an hour",
        "smaller chunks (`chunk_size`), or an On-Demand rung"),
    Cause("L8", "turn", "slower than before", "times of records", "wait; `tidemill status JOB` shows the machines"),
    Cause("L10", "well", "it progresses", "times of records", "nothing"),
    Cause("L1", "well", "it was just sent", "the time of the newest round",
        "wait; machines take 2 to 5 minutes from zero"),
    Cause("L13", "turn", "nothing tells why", "no fact above holds", "`tidemill doctor`; `tidemill logs JOB --worker`"),
)  # fmt: skip
BY_CODE = {cause.code: (order, cause) for order, cause in enumerate(CAUSES)}
