"""Rights that go: roles that are deleted, and permissions that policies lose."""

from collections.abc import Iterator

from ops.review.document import Step
from ops.review.grants import grants, widened
from ops.review.models import Finding, Severity
from ops.review.values import is_unknown
from tidemill.figures import counted

_ROLE = "aws:iam/role:Role"
_SERVICE = "aws:iam/serviceLinkedRole:ServiceLinkedRole"
_DOCUMENTS = ("aws:iam/rolePolicy:RolePolicy", "aws:iam/policy:Policy", "aws:efs/fileSystemPolicy:FileSystemPolicy")
_MOST_LINES = 20


def findings(step: Step, deleted: set[str]) -> Iterator[Finding]:
    """Findings of the kind `access-lost` about one resource.

    Args:
        deleted: The URNs of all that goes.
    """
    if step.type == _ROLE and step.op == "delete":
        trusted = str(step.old.get("assumeRolePolicy") or "")
        # A service's role goes with what the service runs, which says more.
        if '"AWS"' in trusted:
            title = "the role is deleted: who assumed it has no access, and policies that name it break"
            yield Finding("high", "access-lost", step.name, step.urn, title)
        return
    if step.type == _SERVICE and step.op == "delete":
        title = f"the role of {step.old.get('awsServiceName')} is deleted: it can start nothing in this account"
        yield Finding("high", "access-lost", step.name, step.urn, title)
    if step.type not in _DOCUMENTS or step.op not in ("update", "delete") or is_unknown(step.new.get("policy")):
        return
    sources = step.old_state.property_dependencies if step.old_state else {}
    holders = {urn for key in ("role", "fileSystemId") for urn in sources.get(key) or []}
    if step.op == "delete" and (not holders or holders <= deleted):
        return
    lost = [
        grant for grant in widened(grants(step.new.get("policy")) or [], grants(step.old.get("policy")) or [])
        if grant.effect == "Allow"
    ]  # fmt: skip
    if lost:
        severity: Severity = "high" if any(grant.action.startswith("kms:") for grant in lost) else "medium"
        title = f"policy loses {counted(len(lost), 'permission')}: what needs them fails"
        yield Finding(severity, "access-lost", step.name, step.urn, title, tuple(map(str, lost[:_MOST_LINES])))
