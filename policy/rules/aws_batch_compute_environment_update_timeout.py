"""An update of a compute environment waits for the jobs that run on it.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdatePolicy.html
"""

from tidemill.planned_fleet import whole

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Resource, Violations, parameter, resource_rule
from .common.values import UNKNOWN, flag, look

PARAMETERS = {
    "minutes": {
        "type": "integer",
        "minimum": 1,
        "maximum": 360,
        "default": 360,
        "description": "How long an update must wait for running jobs; Batch accepts at most 360 minutes.",
    }
}


@resource_rule(
    "Updates of compute environments wait for running jobs.", MEDIUM, COMPUTE_ENVIRONMENT, parameters=PARAMETERS
)
def violations(args: Resource) -> Violations:
    policy, least = look(args.props, "updatePolicy"), parameter(args, "minutes")
    if policy is UNKNOWN or look(args.props, "type") == "UNMANAGED":
        return
    if flag(look(policy, "terminateJobsOnUpdate")) is True:
        yield "updatePolicy.terminateJobsOnUpdate is true: an update ends running jobs. Set it to false."
    minutes = look(policy, "jobExecutionTimeoutMinutes")
    if minutes is not UNKNOWN and (whole(minutes) or 30) < least:
        shown = whole(minutes) or "not set (30)"
        yield (
            f"updatePolicy.jobExecutionTimeoutMinutes is {shown}: an update ends jobs that take longer. "
            f"Set it to {least} or more."
        )
