"""A role names who may assume it, and never everybody.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
"""

import re
from typing import Any

from .common.documents import UnreadableDocumentError, parse, statements
from .common.kinds import ROLE
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look

_WHO = ("aws:principal", "aws:source", "aws:userid", "aws:username", "sts:externalid", "aws:vpcsource")
"""Beginnings of the keys that say who calls, or from which network, in lower case.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html"""
_POSITIVE = re.compile(r"(?!.*IfExists)(ForAnyValue:)?(String(Equals|Like)|Arn(Equals|Like)|IpAddress)")


@resource_rule("No role can be assumed by everybody.", CRITICAL, ROLE)
def violations(args: Resource) -> Violations:
    try:
        document = parse(look(args.props, "assumeRolePolicy"))
    except UnreadableDocumentError as error:
        yield f"{error}: pass json.dumps(...) of the trust policy."
        return
    for statement in statements(document):
        principal = look(statement, "Principal")
        everybody = principal == "*" or "*" in items(look(principal, "AWS")) or look(statement, "NotPrincipal")
        if look(statement, "Effect") == "Allow" and everybody and not _says_who(look(statement, "Condition")):
            yield "assumeRolePolicy lets everybody assume the role. Name accounts, roles or a service as Principal."


def _says_who(condition: Any) -> bool:
    """Whether a condition limits who calls: `aws:SecureTransport` and the like limit only how."""
    if condition is UNKNOWN:
        return True
    tests = [look(condition, operator) for operator in condition or () if _POSITIVE.match(operator)]
    return any(test is UNKNOWN or any(key.lower().startswith(_WHO) for key in test) for test in tests)
