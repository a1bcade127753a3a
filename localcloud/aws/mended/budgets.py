"""What moto's AWS Budgets lacks and our stacks need: budget updates and tags."""

from __future__ import annotations

import json
from typing import Any

from moto.budgets.models import Budget
from moto.budgets.responses import BudgetsResponse

from localcloud.aws.mended.method import method

_create = BudgetsResponse.create_budget


def _tags(response: BudgetsResponse) -> dict[str, str]:
    """The tags of the budget that a call names by its ARN or in a new budget."""
    name = (response._get_param("Budget") or {}).get("BudgetName")
    name = name or response._get_param("ResourceARN").partition(":budget/")[2]
    return response.backend.__dict__.setdefault("localcloud_tags", {}).setdefault(name, {})


@method(BudgetsResponse, "create_budget")
def _create_with_tags(response: BudgetsResponse) -> str:
    answer = _create(response)
    _tags(response).clear()  # left from an earlier budget of that name
    return answer and _tag(response)


@method(BudgetsResponse, "tag_resource")
def _tag(response: BudgetsResponse) -> str:
    _tags(response).update({tag["Key"]: tag["Value"] for tag in response._get_param("ResourceTags") or []})
    return "{}"


@method(BudgetsResponse, "untag_resource")
def _untag(response: BudgetsResponse) -> str:
    for key in response._get_param("ResourceTagKeys"):
        _tags(response).pop(key, None)
    return "{}"


@method(BudgetsResponse, "list_tags_for_resource")
def _list_tags(response: BudgetsResponse) -> str:
    tags = [{"Key": key, "Value": value} for key, value in _tags(response).items()]
    return json.dumps({"ResourceTags": tags})


@method(BudgetsResponse, "update_budget")
def _update(response: BudgetsResponse) -> str:
    """Replace a budget, and keep its notifications."""
    wanted: dict[str, Any] = response._get_param("NewBudget")
    account, name = response._get_param("AccountId"), wanted["BudgetName"]
    response.backend.describe_budget(account, name)  # refused if it does not exist
    known = response.backend.budgets[account]
    changed: Any = Budget(wanted, [])
    changed.notifications = known[name].notifications
    known[name] = changed
    return "{}"
