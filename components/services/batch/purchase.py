"""The parts of a launch template about the purchase of machines: capacity reservations and Capacity Blocks."""

import pulumi_aws as aws

from ...config import Rung


def reservation(rung: Rung) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    """Machines start in the reservation or not at all: for a group without room EC2 takes On-Demand unless told not to.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-cr-group.html and
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservationSpecification.html
    """
    if rung.reservation is None:
        return None
    target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs
    if not rung.reservation.startswith("arn:"):
        return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
            capacity_reservation_target=target(capacity_reservation_id=rung.reservation)
        )
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_preference="capacity-reservations-only",
        capacity_reservation_target=target(capacity_reservation_resource_group_arn=rung.reservation),
    )


def block(rung: Rung) -> aws.ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    """EC2 starts machines in a Capacity Block only if they ask for that market; the environment stays On-Demand's.

    Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html and
    https://github.com/awslabs/awsome-distributed-ai/tree/main/1.architectures/3.aws-batch
    """
    return aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block") if rung.block else None
