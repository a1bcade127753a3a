"""AWS Batch: an array job per array of chunks, on compute environments in a queue's order."""

from tidemill.services import Service

SERVICE = Service(
    name="batch",
    title="AWS Batch",
    package=__name__,
    clouds=frozenset({"aws"}),
    whole_cpus=True,
    # The ECS agent registers what the kernel calls total, less 32 MiB. AWS advises to leave 5 % to the agent and the
    # system; 256 MiB more, because a kernel's fixed part weighs most on small machines.
    # Source: https://docs.aws.amazon.com/batch/latest/userguide/ecs-reserved-memory.html
    kept_back=(5, 256),
    # Batch starts machines while it is below `maxvCpus`.
    # Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
    last_may_exceed=True,
    # Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
    notice_seconds=120.0,
    tags_billed=True,
    one_architecture=True,
    # Source: https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
    most_dependencies=20,
)
