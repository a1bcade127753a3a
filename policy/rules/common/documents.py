"""Reads IAM policy documents: what a document allows, on any resource."""

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from .values import UNKNOWN, items, look

_WHO = (
    "aws:federatedprovider", "aws:principalaccount", "aws:principalarn", "aws:principalorg", "aws:principalservicename",
    "aws:sourceaccount", "aws:sourcearn", "aws:sourceip", "aws:sourceorg", "aws:sourcevpc", "aws:userid",
    "sts:externalid",
)  # fmt: skip
"""Beginnings of the keys that say who calls, or from which network, in lower case. Tags and names of a caller are not
among them: the caller's own account chooses those.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html"""
_POSITIVE = re.compile(r"(?!.*IfExists)(ForAnyValue:)?(String(Equals|Like)|Arn(Equals|Like)|IpAddress)")
_ANYONE = re.compile(r"[*?]*|arn:([^:]*:){0,2}[*?]+|arn:([^:]*:){3}[*?]+(:.*)?|0\.0\.0\.0/0|::/0")
"""Values that every caller meets, or one from any account."""
SUBMIT = "batch:SubmitJob"
FORBIDDEN = ("batch:RegisterJobDefinition", "iam:PassRole")
"""With these, a submitter can mount the host's root in a job of their own and be root on the machines."""


class UnreadableDocumentError(ValueError):
    """The document is not a JSON object."""


def parse(document: Any) -> Any:
    """Return a document as a mapping, ``None`` when absent and ``UNKNOWN`` when only ``up`` will know it.

    Raises:
        UnreadableDocumentError: The text is not a JSON object.
    """
    if document is None or document is UNKNOWN or isinstance(document, Mapping):
        return document
    try:
        parsed = json.loads(document)
    except ValueError as error:
        raise UnreadableDocumentError(f"the policy document is not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise UnreadableDocumentError("the policy document is not a JSON object")
    return parsed


def statements(document: Any) -> list[Any]:
    """List a document's statements; empty for an absent or unknown document."""
    return items(look(document, "Statement"))


def conditions(statement: Any) -> list[tuple[str, str, list[Any]]]:
    """List a statement's conditions: operator, key in lower case, because IAM ignores its case, and values."""
    tests = look(statement, "Condition")
    return [
        (operator, key.lower(), items(look(tests, operator, key)))
        for operator in tests or ()
        for key in look(tests, operator) or ()
    ]


def is_everybody(principal: Any) -> bool:
    """True if a principal names everybody, perhaps by a wildcard in a name."""
    if not isinstance(principal, Mapping):
        return principal == "*"
    return any("*" in name for kind in principal for name in items(look(principal, kind)) if isinstance(name, str))


def admits_everybody(statement: Any) -> bool:
    """True if a statement allows something to everybody: `aws:SecureTransport` and the like limit only how, not who."""
    if look(statement, "Effect") != "Allow" or look(statement, "Condition") is UNKNOWN:
        return False
    everybody = is_everybody(look(statement, "Principal")) or look(statement, "NotPrincipal") is not None
    return everybody and not any(
        _POSITIVE.match(operator) and key.startswith(_WHO) and not any(_is_open(value) for value in values)
        for operator, key, values in conditions(statement)
    )


def _is_open(value: Any) -> bool:
    return isinstance(value, str) and bool(_ANYONE.fullmatch(value))


def denies_plain(statement: Any, *actions: str) -> bool:
    """True if a statement denies everybody all of a service's actions without TLS.

    Args:
        actions: Those that are enough together, in lower case, unless the statement denies `*` or the whole service.
    """
    tests = [
        (operator, key, [str(value).lower() for value in values]) for operator, key, values in conditions(statement)
    ]
    denied = {action.lower() for action in items(look(statement, "Action")) if isinstance(action, str)}
    return (
        look(statement, "Effect") == "Deny"
        and is_everybody(look(statement, "Principal"))
        and tests in [[(operator, "aws:securetransport", ["false"])] for operator in ("Bool", "BoolIfExists")]
        and (not denied.isdisjoint(("*", f"{actions[0].partition(':')[0]}:*")) or denied.issuperset(actions))
    )


def _names(statement: Any, action: str) -> bool:
    def match(key: str) -> bool:
        # IAM compares actions without case; `*` and `?` are its only wildcards.
        patterns = [p for p in items(look(statement, key)) if isinstance(p, str)]
        return any(fnmatchcase(action.lower(), p.lower().replace("[", "[[]")) for p in patterns)

    if look(statement, "NotAction") is not None:
        return not match("NotAction")
    return match("Action")


def _is_everywhere(statement: Any) -> bool:
    return "*" in items(look(statement, "Resource")) and not look(statement, "Condition")


def allows(documents: list[Any], action: str) -> bool:
    """True if documents that act together allow an action on any resource.

    Only a Deny of everything without a condition revokes an Allow: a narrower one leaves something allowed.
    """
    every = [statement for document in documents for statement in statements(document)]
    allowed = any(look(s, "Effect") == "Allow" and _names(s, action) for s in every)
    denied = any(look(s, "Effect") == "Deny" and _names(s, action) and _is_everywhere(s) for s in every)
    return allowed and not denied


def forbidden_to_submitters(documents: list[Any]) -> Iterator[str]:
    """Yield the forbidden actions that documents allow, if they allow submitting jobs at all."""
    if allows(documents, SUBMIT):
        yield from (action for action in FORBIDDEN if allows(documents, action))
