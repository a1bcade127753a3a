"""A stack's budget as plain data."""

from typing import Annotated

from pydantic import Field

from .later import Text, from_resource
from .model import Model
from .types import ADDRESS, BILLING_ACCOUNT, matching, unique


class Budget(Model):
    """A monthly budget for the stack's cost, with notices by e-mail. It notifies and does not stop anything."""

    monthly_usd: int = Field(
        ge=1,
        le=100_000_000,
        description="Whole US dollars per calendar month. Costs nothing. GCP: the billing account must be in USD.",
    )
    notify: Annotated[
        list[Annotated[str, matching(ADDRESS, "an e-mail address such as ml-platform@example.com", 254)]],
        unique,
    ] = Field(
        min_length=1,
        max_length=10,
        description="E-mail addresses for notices at 50, 80 and 100 % spent and at 100 % forecast; on GCP at most 5.",
    )
    billing_account: (
        Annotated[
            Text,
            from_resource(
                BILLING_ACCOUNT, "the id of a billing account such as 012345-6789AB-CDEF01", "budget.billing_account"
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="GCP: the billing account that pays for the project; budgets belong to it. AWS has none.",
    )
