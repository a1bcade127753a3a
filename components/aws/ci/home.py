"""The account of CI: its state, and how the resources of an environment's stacks are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from ..account import Account

TAG = "tidemill:environment"

NAMED = {
    "batch": [
        f"batch:*:{{account}}:{kind}/*-{{environment}}-*"
        for kind in ("compute-environment", "job-definition", "job-queue", "scheduling-policy")
    ],
    "budgets": ["budgets::{account}:budget/*-{environment}-*"],
    # `*-{environment}-*` would match another environment's queue of that name; a dashboard has its pipeline's name.
    "cloudwatch": [
        "cloudwatch:*:{account}:alarm:*-{environment}-monitoring-*",
        "cloudwatch::{account}:dashboard/*-{environment}",
    ],
    "ecr": ["ecr:*:{account}:repository/*-{environment}/*"],
    "events": ["events:*:{account}:rule/*-{environment}-monitoring-*"],
    "firehose": ["firehose:*:{account}:deliverystream/*-{environment}-*"],
    "logs": ["logs:*:{account}:log-group:*-{environment}-*"],
    "secretsmanager": ["secretsmanager:*:{account}:secret:*-{environment}-identity-secrets-*"],
    # A subscription's name begins with its topic's.
    "sns": ["sns:*:{account}:*-{environment}-monitoring-*"],
    # As narrow as a store's name: a wildcard also matches object names after the slash.
    "s3": ["s3:::*-{environment}-store-bucket-*"],
}
"""Resources of an environment's stacks are named `<team>-<environment>-…`."""
FUNCTION = "lambda:*:{account}:function:*-{environment}-sender-*"
QUEUE = "sqs:*:{account}:*-{environment}-*-q-*"
"""The sender of a stack, and the queues of its events."""


@dataclass(frozen=True)
class Home:
    """An account's state bucket and key, and the names of CI's own resources."""

    account: Account
    state: pulumi.Input[str]
    """ARN of the state's bucket."""
    key: pulumi.Input[str]
    """ARN of the key of the state and its secrets."""
    name: str
    """Prefix of the names of CI's own roles and policies."""
    replica: pulumi.Input[str] | None = None
    """ARN of the state's replica, if there is one."""

    def arns(self, templates: Sequence[str], environment: str = "") -> list[pulumi.Output[str]]:
        """Fill ``{account}`` and ``{environment}`` into ARNs without ``arn:<partition>:``."""
        account = self.account
        return [
            pulumi.Output.format("arn:{0}:" + t.replace("{account}", "{1}"), account.partition, account.number)
            for t in self.filled(templates, environment)
        ]

    @property
    def via_s3(self) -> dict[str, pulumi.Output[str]]:
        return {"kms:ViaService": pulumi.Output.concat("s3.*.", self.account.dns_suffix)}

    @staticmethod
    def filled(templates: Sequence[str], environment: str) -> list[str]:
        """Texts with ``{environment}`` filled in."""
        return [template.replace("{environment}", environment) for template in templates]


def actions(service: str, words: str) -> list[str]:
    return [f"{service}:{word}" for word in sorted(set(words.split()))]


def all_actions(table: Mapping[str, str]) -> list[str]:
    return [action for service, words in table.items() for action in actions(service, words)]
