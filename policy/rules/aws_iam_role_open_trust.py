"""A role names who may assume it, and never everybody.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.documents import UnreadableDocumentError, parse, statements
from .common.kinds import ROLE
from .common.rule import CRITICAL, resource_rule
from .common.values import items, look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    try:
        document = parse(look(args.props, "assumeRolePolicy"))
    except UnreadableDocumentError as error:
        yield f"{error}: pass json.dumps(...) of the trust policy."
        return
    for statement in statements(document):
        principal = look(statement, "Principal")
        everybody = principal == "*" or "*" in items(look(principal, "AWS"))
        if look(statement, "Effect") == "Allow" and everybody and not look(statement, "Condition"):
            yield "assumeRolePolicy lets everybody assume the role. Name accounts, roles or a service as Principal."


POLICY = resource_rule(
    __name__,
    ROLE,
    violations=violations,
    description="No role can be assumed by everybody.",
    severity=CRITICAL,
)
