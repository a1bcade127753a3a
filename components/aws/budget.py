"""A pipeline's monthly budget and its notices."""

from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ..base import as_args, token
from ..config import Budget, part
from .checks import check_budget

ACTUAL = (50, 80, 100)
"""Spent percentages of the budget that trigger a notice."""
FORECAST = 100
"""Forecast percentage of the budget at the month's end that triggers a notice."""
METRIC = "UnblendedCost"
"""The cost of usage on the day of use. AWS requires a metric with every filter expression.
Source: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html"""


@dataclass
class AwsBudgetArgs:
    """Arguments of `AwsBudget`."""

    monthly_usd: int
    """USD per calendar month (UTC)."""
    notify: list[str]
    """Recipients of notices: 1 to 10 e-mail addresses."""
    topic: pulumi.Input[str] | None = None
    """ARN of an SNS topic that gets the notices as well; its policy must let Budgets publish."""
    cost_tags: dict[str, str] = field(default_factory=dict)
    """Counts the cost of everything that has all of these tags; without tags, the whole account's cost."""
    tags: dict[str, str] | None = None
    """Tags of the budget itself."""


class AwsBudget(pulumi.ComponentResource):
    """A monthly cost budget for everything with a pipeline's tags, with notices by e-mail.

    It notifies and does not stop anything: AWS computes costs a few times per day, hours after the use. A job's own
    limit is `tidemill submit --max-usd`. Tags count from the day on which they are activated as cost allocation tags in
    the account that pays (an organization's management account); until then the budget stays at zero.

    Sources: https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-best-practices.html,
    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html

    Makes: a budget with notices at 50, 80 and 100 % spent and at 100 % forecast.

    Costs while idle: nothing.

    Example:
        ```python
        tags = {"tidemill:team": "vision"}
        args = AwsBudgetArgs(monthly_usd=2000, notify=["ml-platform@example.com"], cost_tags=tags)
        budget = AwsBudget("vision-dev-budget", args)
        pulumi.export("budget", budget.budget)
        ```
    """

    budget: pulumi.Output[str]
    """The budget's name."""

    def __init__(self, name: str, args: AwsBudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsBudgetArgs, args)
        super().__init__(token(AwsBudget), name, None, opts)
        wanted = part(Budget, {"monthly_usd": args.monthly_usd, "notify": args.notify}, "budget")
        check_budget(wanted)
        made = aws.budgets.Budget(
            f"{name}-monthly",
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(wanted.monthly_usd),
            limit_unit="USD",
            metrics=METRIC if args.cost_tags else None,
            filter_expression=_all_of(args.cost_tags),
            notifications=[
                *(_notice("ACTUAL", percent, wanted.notify, args.topic) for percent in ACTUAL),
                _notice("FORECASTED", FORECAST, wanted.notify, args.topic),
            ],
            tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.budget = made.name
        self.register_outputs({"budget": self.budget})


def _all_of(tags: dict[str, str]) -> "aws.budgets.BudgetFilterExpressionArgs | None":
    """Costs with all of the tags; `And` is for two or more.

    Source: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Expression.html
    """
    if not tags:
        return None
    if len(tags) == 1:
        [(key, value)] = tags.items()
        return aws.budgets.BudgetFilterExpressionArgs(
            tags=aws.budgets.BudgetFilterExpressionTagsArgs(key=key, values=[value])
        )
    return aws.budgets.BudgetFilterExpressionArgs(
        ands=[
            aws.budgets.BudgetFilterExpressionAndArgs(
                tags=aws.budgets.BudgetFilterExpressionAndTagsArgs(key=key, values=[value])
            )
            for key, value in sorted(tags.items())
        ]
    )


def _notice(
    kind: str, percent: int, addresses: list[str], topic: pulumi.Input[str] | None
) -> "aws.budgets.BudgetNotificationArgs":
    return aws.budgets.BudgetNotificationArgs(
        comparison_operator="GREATER_THAN",
        notification_type=kind,
        threshold=percent,
        threshold_type="PERCENTAGE",
        subscriber_email_addresses=sorted(addresses),
        subscriber_sns_topic_arns=None if topic is None else [topic],
    )
