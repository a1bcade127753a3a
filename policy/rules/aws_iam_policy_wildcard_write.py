"""No policy grants writes by wildcard: neither every action of a service, nor a writing action on everything.

A condition counts as a limit: use `aws:ResourceTag` where an action cannot name its resource.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#grant-least-privilege
"""

import re
from collections.abc import Iterator
from typing import Any

from .aws_iam_policy_submitter import TYPES, documents_of
from .common.documents import UnreadableDocumentError, statements
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import items, look

READS = (
    "batchcheck", "batchget", "check", "describe", "discover", "estimate", "filter", "get", "head", "list", "lookup",
    "query", "scan", "search", "select", "simulate", "startquery", "stopquery", "test", "validate", "view",
)  # fmt: skip
"""Prefixes of actions that change nothing."""

_EVERYTHING = re.compile(r"[*?]+|arn:([^:]*:){0,2}[*?]+|arn:([^:]*:){3}[*?]*:[*?:/]+")
"""Resources that are everything, or everything in a service, whatever the account."""


@resource_rule("No policy allows every action of a service, or writes to every resource.", HIGH, *TYPES)
def violations(args: Resource) -> Violations:
    try:
        documents = documents_of(args.props)
    except UnreadableDocumentError:
        return  # aws-iam-policy-submitter reports it
    for statement in (s for document in documents for s in statements(document)):
        if look(statement, "Effect") == "Allow":
            yield from _of_statement(statement)


def _of_statement(statement: Any) -> Iterator[str]:
    actions = [action for action in items(look(statement, "Action")) if isinstance(action, str)]
    whole = [action for action in actions if action == "*" or action.endswith(":*")]
    if whole:
        yield f"{', '.join(whole)} is every action, including writes. List the actions."
    on = [resource for resource in items(look(statement, "Resource")) if isinstance(resource, str)]
    wide = [f"Resource {resource}" for resource in on if _EVERYTHING.fullmatch(resource)]
    wide += ["NotResource"] if look(statement, "NotResource") is not None else []
    if wide and not look(statement, "Condition"):
        writing = [action for action in actions if action not in whole and not _reads(action)]
        if writing:
            yield (
                f"{', '.join(writing)} on {wide[0]}: it could change others' resources. Name the resources, or "
                "add a condition on their tags."
            )
    if look(statement, "NotAction") is not None:
        yield "NotAction allows every other action, including writes. List the actions."


def _reads(action: str) -> bool:
    return action.rpartition(":")[2].lower().startswith(READS)
