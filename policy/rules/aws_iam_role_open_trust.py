"""A role names who may assume it, and never everybody.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
"""

from .common.documents import UnreadableDocumentError, admits_everybody, parse, statements
from .common.kinds import ROLE
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import look


@resource_rule("No role can be assumed by everybody.", CRITICAL, ROLE)
def violations(args: Resource) -> Violations:
    try:
        document = parse(look(args.props, "assumeRolePolicy"))
    except UnreadableDocumentError as error:
        yield f"{error}: pass json.dumps(...) of the trust policy."
        return
    if any(map(admits_everybody, statements(document))):
        yield "assumeRolePolicy lets everybody assume the role. Name accounts, roles or a service as Principal."
