"""A role that CI assumes by OIDC is bound to a repository, and there to an environment, a branch or pull requests.

With a wildcard, any branch and any pull request, or any repository of the same host, gets the role. A role that
writes should be bound to an environment, whose reviewers decide; a rule on trust cannot see which roles write.
On GitLab a merge request's pipeline has the subject of its branch, so that a reader admits every branch of one project.
Source: https://docs.github.com/en/actions/concepts/security/openid-connect,
https://docs.gitlab.com/ci/cloud_services/aws/
"""

import re
from collections.abc import Iterator
from typing import Any

from .common.documents import UnreadableDocumentError, conditions, parse, statements
from .common.kinds import ROLE
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import items, look

_GITHUB = "token.actions.githubusercontent.com"
_OPERATORS = {
    f"{quantifier}String{test}"
    for quantifier in ("", "ForAnyValue:")
    for test in ("Equals", "EqualsIgnoreCase", "Like")
}
_BOUND = re.compile(r"repo:[^*?:/]+/[^*?:/]+:(pull_request|environment:[^*?:]+|ref:refs/[^*?:]+)")

_OF_GITLAB = re.compile(r"(project_path:[^*?:]+/[^*?:]+|project_id:\d+):ref_type:branch:ref:\*")


@resource_rule(
    "Roles for CI are bound to a repository, and there to an environment, a branch or pull requests.", CRITICAL, ROLE
)
def violations(args: Resource) -> Violations:
    try:
        document = parse(look(args.props, "assumeRolePolicy"))
    except UnreadableDocumentError:
        return  # aws-iam-role-open-trust reports it
    for statement in statements(document):
        for provider in items(look(statement, "Principal", "Federated")):
            if look(statement, "Effect") == "Allow" and isinstance(provider, str) and "oidc-provider/" in provider:
                yield from _of_issuer(provider.partition("oidc-provider/")[2], statement)


def _of_issuer(issuer: str, statement: Any) -> Iterator[str]:
    audiences = _demanded(statement, f"{issuer}:aud")
    if not any(_is_bound("", audience) for values in audiences for audience in values):
        yield f"the trust in {issuer} has no condition on {issuer}:aud. Demand the audience sts.amazonaws.com."
    # All conditions must hold, so one that binds is enough.
    unbound = [[s for s in values if not _is_bound(issuer, s)] for values in _demanded(statement, f"{issuer}:sub")]
    if all(unbound):
        loose = [subject for values in unbound for subject in values]
        yield (
            f"the trust in {issuer} admits {', '.join(loose) or 'every subject'}. Demand {issuer}:sub "
            "repo:<owner>/<repository>:environment:<environment>, without wildcards."
        )


def _is_bound(issuer: str, subject: str) -> bool:
    if issuer == _GITHUB:
        return bool(_BOUND.fullmatch(subject))
    return not set(subject) & set("*?") or bool(_OF_GITLAB.fullmatch(subject))


def _demanded(statement: Any, key: str) -> list[list[str]]:
    """The values that each condition requires of a key of the token."""
    demands = [
        values for operator, name, values in conditions(statement) if name == key.lower() and operator in _OPERATORS
    ]
    return [[value for value in values if isinstance(value, str)] for values in demands if values]
