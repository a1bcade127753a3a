"""A role names who may assume it, and never everybody.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
"""

from .common.documents import UnreadableDocumentError, parse, statements
from .common.kinds import ROLE
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import items, look


@resource_rule("No role can be assumed by everybody.", CRITICAL, ROLE)
def violations(args: Resource) -> Violations:
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
