"""A job queue tries Spot capacity first.

Batch places jobs in the environment with the lowest order that has free capacity.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeEnvironmentOrder.html
"""

from collections.abc import Sequence

from pulumi_policy import PolicyResource

from tidemill.planned_fleet import whole

from .common.kinds import COMPUTE_ENVIRONMENT, JOB_QUEUE
from .common.rule import MEDIUM, Stack, StackViolations, stack_rule
from .common.values import items, look

_SPOT = ("SPOT", "FARGATE_SPOT")


@stack_rule("Job queues try Spot capacity first.", MEDIUM, JOB_QUEUE)
def violations(args: Stack) -> StackViolations:
    for queue in (r for r in args.resources if r.resource_type == JOB_QUEUE):
        markets = [look(e.props, "computeResources", "type") for e in _first(args.resources, queue)]
        types = [market for market in markets if isinstance(market, str)]
        if types and len(types) == len(markets) and not any(market in _SPOT for market in types):
            message = (
                f"its first compute environment is of type {types[0]}: jobs start on On-Demand machines. "
                "Give an environment of type SPOT the lowest order."
            )
            yield message, queue.urn


def _first(resources: Sequence[PolicyResource], queue: PolicyResource) -> list[PolicyResource]:
    """The queue's first environment; all of them while their ARNs, and so their order, are not known."""
    orders = items(look(queue.props, "computeEnvironmentOrders"))
    arns = [(whole(look(one, "order")), look(one, "computeEnvironment")) for one in orders]
    if arns and all(order is not None and isinstance(arn, str) for order, arn in arns):
        first = min(arns)[1]
        return [r for r in resources if r.resource_type == COMPUTE_ENVIRONMENT and look(r.props, "arn") == first]
    sources = queue.property_dependencies.get("computeEnvironmentOrders", [])
    return [r for r in sources if r.resource_type == COMPUTE_ENVIRONMENT]
