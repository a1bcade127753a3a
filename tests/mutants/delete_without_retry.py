"""Mutant: a compute environment that AWS Batch does not release is deleted once, as the provider alone would."""

import pulumi

from components.services.batch import compute_environment


async def give_up(args: pulumi.ErrorHookArgs) -> bool:
    return False


def apply() -> None:
    compute_environment.wait_for_relation = give_up
