"""An autoscaler only adds machines; idle ones leave by themselves.

It cannot know which machine is busy, so what it removes may be hours into an item. A queue that says
`gcp: {scale_in: autoscaler}`, for items of seconds, is left alone.
Source: https://cloud.google.com/compute/docs/autoscaler/autoscaler-modes
"""

from collections.abc import Iterator, Mapping

from pulumi_policy import ResourceValidationArgs

from .common.kinds import AUTOSCALERS
from .common.rule import HIGH, resource_rule
from .common.settings import settings
from .common.values import UNKNOWN, look

ALLOWED = ("ONLY_SCALE_OUT", "ONLY_UP", "OFF")


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    """Yield that an autoscaler removes machines, with the fix."""
    mode = look(args.props, "autoscalingPolicy", "mode")
    if mode is UNKNOWN or mode in ALLOWED or _is_meant(args.name):
        return
    yield (
        f"autoscalingPolicy.mode is {mode or 'not set (ON)'}: it removes machines that are busy. Set it to "
        "ONLY_SCALE_OUT, or say gcp: {scale_in: autoscaler} in the queue if its items may run twice."
    )


def _is_meant(name: str) -> bool:
    """Whether the autoscaler belongs to a queue of the stack that says so; its name begins with the queue's."""
    queues = settings().data("tidemill:queues")
    prefix = f"{settings().text('tidemill:team')}-{settings().text('tidemill:environment')}"
    said = queues.items() if isinstance(queues, Mapping) else ()
    return any(
        look(queue, "gcp", "scale_in") == "autoscaler" and name.startswith(f"{prefix}-{key}-") for key, queue in said
    )


POLICY = resource_rule(
    __name__,
    *AUTOSCALERS,
    violations=violations,
    description="Autoscalers remove no machine, unless the stack says that items may run twice.",
    severity=HIGH,
)
