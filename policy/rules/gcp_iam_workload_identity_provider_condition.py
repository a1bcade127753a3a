"""A workload identity provider admits one repository's tokens, not everybody's on the same host.

Source: https://cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines#conditions
"""

import re

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look

_CLAIM = r"(assertion|attribute)\.(repository|repository_id|project_path|project_id|workflow_ref|job_workflow_ref)\b"
_SUBJECT = r"(assertion\.sub|google\.subject)\b"
_DEMAND = re.compile(
    rf"({_CLAIM}|{_SUBJECT})\s*(==|in\s*\[)|==\s*({_CLAIM}|{_SUBJECT})"
    rf"|{_SUBJECT}\.startsWith\(\s*['\"](repo|project_path):[^:/'\"]+/[^:'\"]+:"
)
"""Demands a repository, or a token's subject, which begins with one."""


@resource_rule(
    "Workload identity providers are bound to a repository.",
    CRITICAL,
    "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",
)
def violations(args: Resource) -> Violations:
    if look(args.props, "oidc") is None:
        return
    condition = look(args.props, "attributeCondition")
    if condition is UNKNOWN:
        return
    if not _binds(condition or ""):
        yield (
            f"attributeCondition is {condition or 'not set'}: tokens of any repository are admitted. "
            'Set it to assertion.repository == "owner/name", with the environment where it matters.'
        )


def _binds(condition: str) -> bool:
    """True if a condition demands one: each side of `||`, or one side of `&&`."""
    if len(_parts(condition, "?")) > 1:
        return False  # A choice may admit others either way.
    for operator, together in (("||", all), ("&&", any)):
        parts = _parts(condition, operator)
        if len(parts) > 1:
            return together(map(_binds, parts))
    inner = condition.strip()
    if inner.startswith("(") and inner.endswith(")"):
        return _binds(inner[1:-1])
    return not inner.startswith("!") and bool(_DEMAND.search(inner))


def _parts(condition: str, operator: str) -> list[str]:
    """The parts of a condition between an operator that is in no brackets and in no text."""
    parts, depth = [""], 0
    for piece in re.split(r"""("[^"]*"|'[^']*'|\|\||&&|[?()\[\]])""", condition):
        depth += (piece in ("(", "[")) - (piece in (")", "]"))
        if piece == operator and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts
