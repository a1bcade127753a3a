"""Which policies allow a call: IAM's evaluation within one account.

Sources, below https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_: evaluation-logic.html,
elements_condition_operators.html, elements_notprincipal.html, elements_resource.html, variables.html. An unknown
operator is an error.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import eq, ge, gt, le, lt
from typing import Any

Context = Mapping[str, "str | list[str]"]
Document = dict[str, Any]

# How strongly a resource-based policy grants: to the user or session itself, to the role behind it (limited by its
# boundary and session policy), or to the account (whose own IAM then decides).
DIRECT, ROLE, ACCOUNT = 3, 2, 1


class PolicyError(ValueError):
    """A policy that cannot be evaluated."""


@dataclass(frozen=True)
class Query:
    """One question: may the caller do ``action`` on ``resource``?

    Attributes:
        action: An IAM action such as ``s3:GetObject``.
        resource: An ARN, or ``*`` for actions without resources.
        caller: The names that identify the caller, and how strongly: ``{"AWS:arn:…": DIRECT, …}``.
        context: Condition keys in lower case; a list is a multivalued key.
        excepted: Whether ``NotPrincipal`` can spare the caller: never one with a permissions boundary.
    """

    action: str
    resource: str
    caller: Mapping[str, int] = field(default_factory=dict)
    context: Context = field(default_factory=dict)
    excepted: bool = True


@lru_cache(maxsize=4096)
def parse(text: str) -> Document:
    return json.loads(text)


def refusal(
    query: Query,
    identity: Iterable[Document],
    resource: Document | None = None,
    *,
    boundary: Document | None = None,
    session: Document | None = None,
    resource_decides: bool = False,
    foreign: bool = False,
) -> str | None:
    """Return why the call is refused, in AWS's words, or None if it is allowed.

    Args:
        identity: The caller's own policies.
        resource: The policy of the bucket, role or key.
        boundary: The caller's permissions boundary.
        session: The policy passed to AssumeRole.
        resource_decides: Only a grant in the resource's policy allows the call (as in a role's trust policy).
        foreign: The resource is of another account: a caller needs both accounts' grants, and somebody without a
            signature that of the resource.
    """
    policies = {"identity-based policy": list(identity), "resource-based policy": [resource] if resource else []}
    limits = {"permissions boundary": boundary, "session policy": session}
    if resource and boundary:
        query = replace(query, excepted=False)
    policies |= {kind: [document] for kind, document in limits.items() if document}
    for kind, documents in policies.items():
        if _strength(documents, "Deny", query):
            return f"with an explicit deny in {'an' if kind[0] == 'i' else 'a'} {kind}"
    granted = _strength(policies.pop("resource-based policy"), "Allow", query)
    if granted == DIRECT and not (foreign and query.caller):
        return None
    if granted == ROLE and not foreign:
        del policies["identity-based policy"]
    lacking = [kind for kind, documents in policies.items() if not _strength(documents, "Allow", query)]
    lacking += ["resource-based policy"] if (resource_decides or foreign) and not granted else []
    return f"because no {lacking[0]} allows the {query.action} action" if lacking else None


def _strength(documents: Iterable[Document], effect: str, query: Query) -> int:
    statements = [(s, d.get("Version") == "2012-10-17") for d in documents for s in _list(d.get("Statement", []))]
    return max((_applies(s, versed, query) for s, versed in statements if s["Effect"] == effect), default=0)


def _applies(statement: Document, with_variables: bool, query: Query) -> int:
    variables = query.context if with_variables else None
    strength = _principal(statement, query)
    covered = strength and _covers(statement, "Action", query.action, None)
    covered = covered and _covers(statement, "Resource", query.resource, variables)
    conditions = statement.get("Condition", {}) if covered else {}
    for name, keys in conditions.items():
        if not all(_holds(name, key, _texts(wanted), query.context, variables) for key, wanted in keys.items()):
            return 0
    return strength if covered else 0


def _principal(statement: Document, query: Query) -> int:
    element = "NotPrincipal" if "NotPrincipal" in statement else "Principal"
    principals = statement.get(element, "*")
    if isinstance(principals, str) and principals != "*":
        raise PolicyError(f"{element} {principals!r} is neither an object nor *")
    listed = {"AWS": "*"} if principals == "*" else principals
    names = [f"{kind}:{name}" for kind, some in listed.items() for name in _texts(some)]
    found = {DIRECT if name == "AWS:*" else query.caller.get(name, 0) for name in names}
    if element == "Principal":
        return max(found, default=0)
    # The account must be named too, and then the role or the user. A session's own name is not enough.
    needed = set(query.caller.values()) - ({DIRECT} if ROLE in query.caller.values() else set())
    return 0 if query.excepted and found >= needed else DIRECT


def _covers(statement: Document, element: str, value: str, variables: Context | None) -> bool:
    """Whether ``Action``/``NotAction`` or ``Resource``/``NotResource`` covers it; a trust policy has no Resource."""
    negated = f"Not{element}" in statement
    if not negated and element not in statement:
        return element == "Resource"
    patterns = (_fill(text, variables) for text in _texts(statement[f"Not{element}" if negated else element]))
    matches = (p is not None and bool(_regex(p, element == "Resource").fullmatch(value)) for p in patterns)
    return negated != any(matches)


VARIABLE = re.compile(r"\$\{\s*([^},]+?)\s*(?:,\s*'([^']*)'\s*)?\}")
ESCAPE = str.maketrans({"*": "\ue000", "?": "\ue001"})
UNESCAPE = str.maketrans({"\ue000": "*", "\ue001": "?"})


def _fill(text: str, variables: Context | None) -> str | None:
    """Replace policy variables. None if one has no value: the element then matches nothing."""
    if variables is None or "${" not in text:
        return text
    values = {name: name if name in "*?$" else variables.get(name.lower(), default or None)
              for name, default in VARIABLE.findall(text)}  # fmt: skip
    if not all(isinstance(value, str) for value in values.values()):
        return None
    return VARIABLE.sub(lambda found: str(values[found[1]]).translate(ESCAPE), text)


@lru_cache(maxsize=4096)
def _regex(pattern: str, resource: bool | None = None) -> re.Pattern[str]:
    """``*`` and ``?`` are wildcards. A resource's ``*`` crosses colons only at a segment's end. Actions ignore case."""
    text = re.escape(pattern).replace(r"\?", ".").replace(r"\*", ".*")
    text = re.sub(r"\.\*(?=[^:])", "[^:]*", text) if resource else text
    flags = re.DOTALL | (re.IGNORECASE if resource is False else 0)
    return re.compile(text.translate({0xE000: r"\*", 0xE001: r"\?"}), flags)


def _arn_like(value: str, pattern: str) -> bool:
    pairs = list(zip(value.split(":", 5), pattern.split(":", 5), strict=False))
    return len(pairs) == 6 and all(_regex(wanted).fullmatch(part) for part, wanted in pairs)


def _moment(text: str) -> float:
    if text.isdigit():
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


TESTS = {
    "StringEquals": lambda value, wanted: value == wanted.translate(UNESCAPE),
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() == wanted.translate(UNESCAPE).lower(),
    "StringLike": lambda value, wanted: bool(_regex(wanted).fullmatch(value)),
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
    "IpAddress": lambda value, wanted: ipaddress.ip_address(value) in ipaddress.ip_network(wanted, strict=False),
}
COMPARISONS = {"Equals": eq, "LessThan": lt, "LessThanEquals": le, "GreaterThan": gt, "GreaterThanEquals": ge}
for _name, _compare in COMPARISONS.items():
    TESTS[f"Numeric{_name}"] = lambda value, wanted, compare=_compare: compare(float(value), float(wanted))
    TESTS[f"Date{_name}"] = lambda value, wanted, compare=_compare: compare(_moment(value), _moment(wanted))


def _holds(name: str, key: str, wanted: list[str], context: Context, variables: Context | None) -> bool:
    """One condition: any of the wanted values; if negated, none of them; ForAllValues and ForAnyValue over many."""
    quantifier, _, bare = name.rpartition(":")
    kind = bare.removesuffix("IfExists")
    present = _texts(context.get(key.lower(), []))
    if kind == "Null":
        return (not present) == (wanted[0] == "true")
    negated, test = "Not" in kind, TESTS.get(kind.replace("Not", "", 1))
    if test is None or quantifier not in {"", "ForAllValues", "ForAnyValue"}:
        raise PolicyError(f"condition operator {name!r} is not known")
    if not present:
        return quantifier == "ForAllValues" or bare != kind or (negated and not quantifier)
    patterns = [filled for text in wanted if (filled := _fill(text, variables)) is not None]
    found = [any(test(value, pattern) for pattern in patterns) != negated for value in present]
    return all(found) if quantifier == "ForAllValues" else any(found)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _texts(value: Any) -> list[str]:
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in _list(value)]
