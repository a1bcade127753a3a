"""A workload identity provider admits one repository's tokens, not everybody's on the same host.

Source: https://cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines#conditions
"""

import re

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look

_CLAIM = r"(assertion|attribute)\.(repository|repository_id|project_path|project_id|workflow_ref|job_workflow_ref)\b"
_SUBJECT = r"(assertion\.sub|google\.subject)\b"
_BINDS = re.compile(
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
    if not all(map(_BINDS.search, _alternatives(condition or ""))):
        yield (
            f"attributeCondition is {condition or 'not set'}: tokens of any repository are admitted. "
            'Set it to assertion.repository == "owner/name", with the environment where it matters.'
        )


def _alternatives(condition: str) -> list[str]:
    """The parts of a condition between the `||` that are in no brackets: each of them alone admits a token."""
    parts, depth = [""], 0
    for piece in re.split(r"(\|\||[()\[\]])", condition):
        depth += (piece in ("(", "[")) - (piece in (")", "]"))
        if piece == "||" and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts
