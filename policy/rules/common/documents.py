"""Reads IAM policy documents: what a document allows, on any resource."""

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from .values import UNKNOWN, items, look

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
    """Whether documents that act together allow an action on any resource.

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
