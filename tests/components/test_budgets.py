"""Budgets of both clouds. Recording mocks prove what is requested, not that anybody is notified."""

from typing import Any

import pytest

from components.aws.budget import AwsBudget, AwsBudgetArgs
from components.config import ConfigError
from components.gcp.budget import GcpBudget, GcpBudgetArgs
from tests.components.recording import PROJECT_NUMBER, run
from tests.components.stacks import run_stack

ACCOUNT = "012345-6789AB-CDEF01"


def test_aws_counts_what_carries_the_pipelines_tags():
    made = run_stack("vision-prod").one("budgets.Budget")
    assert made.chain[-2] == "tidemill:index:AwsBudget"
    inputs = made.inputs
    assert (inputs["budgetType"], inputs["timeUnit"]) == ("COST", "MONTHLY")
    assert (inputs["limitAmount"], inputs["limitUnit"]) == ("20000", "USD")
    filters = [part["tags"] for part in inputs["filterExpression"]["ands"]]
    assert filters == [
        {"key": "tidemill:environment", "values": ["prod"]},
        {"key": "tidemill:team", "values": ["vision"]},
    ]
    assert inputs["tags"] == {"tidemill:team": "vision", "tidemill:environment": "prod"}


def test_aws_tells_at_half_at_four_fifths_at_all_and_when_that_is_forecast():
    args = AwsBudgetArgs(monthly_usd=100, notify=["b@example.com", "a@example.com"])
    notices = run(lambda: AwsBudget("b", args)).one("budgets.Budget").inputs["notifications"]
    assert [(each["notificationType"], each["threshold"]) for each in notices] == [
        ("ACTUAL", 50),
        ("ACTUAL", 80),
        ("ACTUAL", 100),
        ("FORECASTED", 100),
    ]
    for notice in notices:
        assert (notice["thresholdType"], notice["comparisonOperator"]) == ("PERCENTAGE", "GREATER_THAN")
        assert notice["subscriberEmailAddresses"] == ["a@example.com", "b@example.com"]


@pytest.mark.parametrize(
    ("tags", "metrics", "expected"),
    [({}, None, None), ({"a": "1"}, "UnblendedCost", {"tags": {"key": "a", "values": ["1"]}})],
    ids=["the account", "one tag"],
)
def test_aws_counts_the_account_or_what_one_tag_names(tags: dict[str, str], metrics: Any, expected: Any):
    args = AwsBudgetArgs(monthly_usd=1, notify=["a@example.com"], cost_tags=tags)
    made = run(lambda: AwsBudget("b", args)).one("budgets.Budget")
    assert (made.inputs.get("metrics"), made.inputs.get("filterExpression")) == (metrics, expected)


def test_gcp_counts_the_project_and_tells_nobody_else():
    recorder = run_stack("vision-gcp-prod")
    made = recorder.one("billing.Budget")
    assert made.chain[-2] == "tidemill:index:GcpBudget"
    inputs = made.inputs
    assert inputs["billingAccount"] == ACCOUNT
    assert inputs["amount"] == {"specifiedAmount": {"currencyCode": "USD", "units": "20000"}}
    assert inputs["budgetFilter"] == {"projects": [f"projects/{PROJECT_NUMBER}"], "calendarPeriod": "MONTH"}
    assert [(rule["spendBasis"], rule["thresholdPercent"]) for rule in inputs["thresholdRules"]] == [
        ("CURRENT_SPEND", 0.5),
        ("CURRENT_SPEND", 0.8),
        ("CURRENT_SPEND", 1),
        ("FORECASTED_SPEND", 1),
    ]
    channel = recorder.one("monitoring.NotificationChannel")
    assert channel.inputs["labels"] == {"email_address": "ml-platform@example.com"}
    assert inputs["allUpdatesRule"] == {
        "monitoringNotificationChannels": [f"{channel.name}-1a2b3c4"],
        "disableDefaultIamRecipients": True,
    }


def test_gcp_keeps_the_channels_of_those_who_stay():
    """Channels are named after the addresses, so removing one address leaves the other channels alone."""

    def channels(*notify: str) -> set[str]:
        args = GcpBudgetArgs(monthly_usd=1, notify=list(notify), billing_account=ACCOUNT)
        return {made.name for made in run(lambda: GcpBudget("b", args)).of("monitoring.NotificationChannel")}

    both, one = channels("a@example.com", "b@example.com"), channels("b@example.com")
    assert len(both) == 2
    assert one < both


def test_without_the_key_there_is_none():
    assert run_stack("demo-aws").of("AwsBudget") == run_stack("demo-gcp").of("GcpBudget") == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AwsBudget("b", AwsBudgetArgs(monthly_usd=0, notify=["a@example.com"])), "tidemill:budget.monthly_usd"),
        (lambda: AwsBudget("b", AwsBudgetArgs(monthly_usd=1, notify=["nobody"])), "tidemill:budget.notify"),
        (
            lambda: GcpBudget("b", GcpBudgetArgs(monthly_usd=1, notify=["a@example.com"], billing_account="mine")),
            "tidemill:budget.billing_account",
        ),
    ],
)
def test_alone_it_refuses_what_a_stack_file_refuses(make: Any, says: str):
    with pytest.raises(ConfigError, match=says):
        run(make)
