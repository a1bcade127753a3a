"""A project's monthly budget and its notices."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from ..config import Budget, part
from .checks import check_budget
from .monitoring.monitoring import mailboxes
from .project import Project

SPENT = (0.5, 0.8, 1.0)
"""Spent shares of the budget that trigger a notice."""
FORECAST = 1.0
"""Forecast share of the budget at the month's end that triggers a notice."""
_LONGEST_NAME = 60
"""Source: https://cloud.google.com/billing/docs/reference/budget/rest/v1/billingAccounts.budgets"""


@dataclass
class GcpBudgetArgs:
    """Arguments of `GcpBudget`."""

    monthly_usd: int
    """USD per calendar month; the billing account's currency must be USD."""
    notify: list[str]
    """Recipients of notices: 1 to 5 e-mail addresses."""
    billing_account: pulumi.Input[str]
    """Id of the billing account that pays for the project: ``012345-6789AB-CDEF01``."""
    labels: dict[str, str] | None = None
    """Labels of the notification channels; a budget takes none."""


class GcpBudget(pulumi.ComponentResource):
    """A monthly budget of the stack's project, with notices by e-mail.

    It notifies and does not stop anything: Google reports costs hours after the use. A job's own limit is
    `tidemill submit --max-usd`. It counts the whole project, because not every cost carries labels: with two stacks in
    one project, each stack's budget counts both.

    The deployer needs `roles/billing.costsManager` on the billing account. The Budget API attributes its calls to a
    project: set `gcp:userProjectOverride` and `gcp:billingProject` for people's own logins (docs/budgets.md).

    Source: https://cloud.google.com/billing/docs/how-to/budgets

    Makes: a notification channel per address, and a budget with notices at 50, 80 and 100 % spent and at 100 %
        forecast.

    Costs while idle: nothing.

    Example:
        ```python
        args = GcpBudgetArgs(
            monthly_usd=2000, notify=["ml-platform@example.com"], billing_account="012345-6789AB-CDEF01"
        )
        budget = GcpBudget("vision-dev-budget", args)
        pulumi.export("budget", budget.budget)
        ```
    """

    budget: pulumi.Output[str]
    """The budget's full name: ``billingAccounts/<account>/budgets/<id>``."""

    def __init__(self, name: str, args: GcpBudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpBudgetArgs, args)
        super().__init__(token(GcpBudget), name, None, opts)
        given = {"monthly_usd": args.monthly_usd, "notify": args.notify, "billing_account": args.billing_account}
        wanted = part(Budget, given, "budget")
        check_budget(wanted)
        made = gcp.billing.Budget(
            f"{name}-monthly",
            billing_account=args.billing_account,
            display_name=name[:_LONGEST_NAME],
            amount=gcp.billing.BudgetAmountArgs(
                specified_amount=gcp.billing.BudgetAmountSpecifiedAmountArgs(
                    currency_code="USD", units=str(wanted.monthly_usd)
                )
            ),
            budget_filter=gcp.billing.BudgetBudgetFilterArgs(
                # By number, as Google returns it: a project's id would show as a change at every preview.
                projects=[pulumi.Output.concat("projects/", Project(self).number)],
                calendar_period="MONTH",
            ),
            threshold_rules=[
                *(_rule(share, "CURRENT_SPEND") for share in SPENT),
                _rule(FORECAST, "FORECASTED_SPEND"),
            ],
            all_updates_rule=gcp.billing.BudgetAllUpdatesRuleArgs(
                monitoring_notification_channels=mailboxes(self, name, wanted.notify, args.labels),
                # Otherwise every administrator of the billing account gets the notices of every team's budget too.
                disable_default_iam_recipients=True,
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.budget = made.name
        self.register_outputs({"budget": self.budget})


def _rule(share: float, basis: str) -> "gcp.billing.BudgetThresholdRuleArgs":
    return gcp.billing.BudgetThresholdRuleArgs(threshold_percent=share, spend_basis=basis)
