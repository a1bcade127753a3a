"""Sizes that AWS refuses and moto takes: of policies, of event patterns and of a dashboard's list of alarms."""

from __future__ import annotations

import json

from moto.cloudwatch.exceptions import DashboardInvalidInputError
from moto.cloudwatch.models import CloudWatchBackend
from moto.events.exceptions import ValidationException
from moto.events.models import EventsBackend
from moto.iam.exceptions import LimitExceededException
from moto.iam.models import IAMBackend

from localcloud.aws.mended.method import check, method

INLINE_CHARACTERS = 10_240
MANAGED_CHARACTERS = 6_144
TRUST_CHARACTERS = 2_048
"""https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

PATTERN_CHARACTERS = 2_048
"""https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""

WIDGET_ALARMS = 100
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""

_put_role_policy = IAMBackend.put_role_policy


def _size(text: str) -> int:
    """Characters that IAM counts of a permission policy: all but white space."""
    return len("".join(text.split()))


@method(IAMBackend, "put_role_policy")
def _inline(self: IAMBackend, role_name: str, policy_name: str, policy_json: str) -> None:
    """One limit applies to all inline policies of a role together."""
    policies = {**self.get_role(role_name).policies, policy_name: policy_json}
    if sum(map(_size, policies.values())) > INLINE_CHARACTERS:
        raise LimitExceededException(f"Maximum policy size of {INLINE_CHARACTERS} bytes exceeded for role {role_name}")
    _put_role_policy(self, role_name, policy_name, policy_json)


def _managed(policy_document: str) -> None:
    if _size(policy_document) > MANAGED_CHARACTERS:
        raise LimitExceededException(f"Cannot exceed quota for PolicySize: {MANAGED_CHARACTERS}")


def _trust(policy_document: str) -> None:
    if len(policy_document) > TRUST_CHARACTERS:
        raise LimitExceededException(f"Cannot exceed quota for ACLSizePerRole: {TRUST_CHARACTERS}")


def _pattern(event_pattern: str | None) -> None:
    if event_pattern and len(event_pattern) > PATTERN_CHARACTERS:
        raise ValidationException(
            f"1 validation error detected: Value '{event_pattern}' at 'eventPattern' failed to satisfy constraint: "
            f"Member must have length less than or equal to {PATTERN_CHARACTERS}"
        )


def _dashboard(body: str) -> None:
    for number, widget in enumerate(json.loads(body).get("widgets", [])):
        if widget["type"] == "alarm" and not 1 <= len(widget["properties"]["alarms"]) <= WIDGET_ALARMS:
            fewer_or_more = f"fewer than 1 items or more than {WIDGET_ALARMS}"
            raise DashboardInvalidInputError(
                f"The dashboard body is invalid: /widgets/{number}/properties/alarms Should NOT have {fewer_or_more}"
            )


check(IAMBackend, "create_policy", "policy_document", _managed)
check(IAMBackend, "create_policy_version", "policy_document", _managed)
check(IAMBackend, "create_role", "assume_role_policy_document", _trust)
check(IAMBackend, "update_assume_role_policy", "policy_document", _trust)
check(EventsBackend, "put_rule", "event_pattern", _pattern)
check(CloudWatchBackend, "put_dashboard", "body", _dashboard)
