"""An autoscaler only adds machines; idle ones stop on their own.

It cannot know which machine is busy, so it may remove one that is hours into an item. The rule skips queues with
`gcp: {scale_in: autoscaler}`, which is for items of seconds.
Source: https://cloud.google.com/compute/docs/autoscaler/autoscaler-modes
"""

from collections.abc import Mapping

from .common.kinds import AUTOSCALERS
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.settings import settings
from .common.values import UNKNOWN, look

ALLOWED = ("ONLY_SCALE_OUT", "ONLY_UP", "OFF")


@resource_rule("Autoscalers remove no machine, unless the stack says that items may run twice.", HIGH, *AUTOSCALERS)
def violations(args: Resource) -> Violations:
    mode = look(args.props, "autoscalingPolicy", "mode")
    if mode is UNKNOWN or mode in ALLOWED or _is_meant(args.name):
        return
    yield (
        f"autoscalingPolicy.mode is {mode or 'not set (ON)'}: it removes busy machines. Set it to "
        "ONLY_SCALE_OUT, or set gcp: {scale_in: autoscaler} on the queue if its items may run twice."
    )


def _is_meant(name: str) -> bool:
    """True if the autoscaler belongs to such a queue of the stack; its name begins with the queue's."""
    queues = settings().data("tidemill:queues")
    prefix = f"{settings().text('tidemill:team')}-{settings().text('tidemill:environment')}"
    named = queues.items() if isinstance(queues, Mapping) else ()
    return any(
        look(queue, "gcp", "scale_in") == "autoscaler" and name.startswith(f"{prefix}-{key}-") for key, queue in named
    )
