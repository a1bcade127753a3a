"""Who may do what: permissions that a change adds, on AWS from policy documents, on GCP from role bindings."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ops.clouds import facts
from ops.clouds.gcp import ADMITS
from ops.review import lost_access
from ops.review.compute import QUEUE
from ops.review.diffs import roots
from ops.review.document import Step
from ops.review.grants import Grant, grants, of_permission, widened
from ops.review.models import Finding, Severity
from ops.review.values import SECRET, UNKNOWN, clean, document, is_unknown, objects, texts
from tidemill.figures import counted

_MOST_LINES = 40
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")
# Properties that hold a policy document.
_CALLED = {"policy": "policy", "assumeRolePolicy": "trust policy"}
_INLINE = "inline policy "
_POLICY, _INSIDE = "aws:iam/policy:Policy", "aws:iam/rolePolicy:RolePolicy"
_ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
_ADMINISTRATORS = ("/AdministratorAccess", "/PowerUserAccess", "/IAMFullAccess")
_NO_DOCUMENTS = frozenset({"aws:ecr/lifecyclePolicy:LifecyclePolicy"})
# Properties that name the principal of a document or a binding.
# Accounts of a cloud's own services.
# Source: https://cloud.google.com/iam/docs/service-agents
_AGENT = re.compile(
    r"serviceAccount:[^@]+@(gcp-sa-[\w-]+|[\w-]*-?(accounts|system|robot))\.(iam\.)?gserviceaccount\.com"
)
# Source: https://cloud.google.com/iam/docs/roles-overview#basic
_BASIC = frozenset({"roles/owner", "roles/editor", "roles/viewer"})
_EVERYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
_LISTS = re.compile(r"gcp:storage/\w+(A[cC][lL]|AccessControl):.*|gcp:bigquery/datasetAccess:DatasetAccess")
"""Types of access lists of buckets, objects and datasets."""
# Source: https://cloud.google.com/storage/docs/access-control/lists#predefined-acl
_PREDEFINED = {
    "publicRead": "READER:allUsers", "publicReadWrite": "WRITER:allUsers",
    "authenticatedRead": "READER:allAuthenticatedUsers",
}  # fmt: skip
_PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
# A login that may grant one of these roles can grant itself anything.
_POWERFUL = frozenset(
    {"roles/iam.serviceAccountTokenCreator", "roles/iam.serviceAccountUser", "roles/resourcemanager.projectIamAdmin"}
)


@dataclass(frozen=True)
class _Binding:
    """A role for one member, on what the resource names."""

    role: str
    member: str
    on: str
    condition: str

    def __str__(self) -> str:
        text = f"{self.role} to {self.member}" + (f" on {self.on}" if self.on else "")
        return f"{text} if {self.condition}" if self.condition else text


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `access-widened`.

    Grants to a principal that is itself new in this preview are `low`: no one has it yet. Wildcards and everybody are
    not.
    """
    created = {step.urn for step in steps if step.op == "create"}
    deleted = {step.urn for step in steps if step.op == "delete"}
    account, detached = _account(steps), _detached(steps)
    # Rights on a queue go with it.
    queues_go = any(step.type == QUEUE for step in steps if step.op == "delete")
    for step in steps:
        if step.op == "delete":
            yield from _bounds_deleted(step, deleted)
        if not queues_go:
            yield from lost_access.findings(step, deleted)
        if step.op in ("same", "read", "refresh", "delete") or not step.new_state:
            continue
        if step.type.startswith("aws:"):
            yield from _aws(step, created, account, detached)
        elif step.type.startswith("gcp:"):
            yield from _gcp(step, created)


def _account(steps: list[Step]) -> str | None:
    """The stack's account: the one that its policies and ARNs name most."""
    numbers = Counter(
        number
        for step in steps
        if step.type.startswith("aws:")
        for value in (*step.new.values(), *step.old.values())
        if isinstance(value, str)
        for number in _ACCOUNT.findall(value)
    )
    return max(sorted(numbers), key=lambda number: numbers[number], default=None)


def _detached(steps: list[Step]) -> dict[str, list[Grant]]:
    """Grants of roles, by URN, from policies that are detached from them."""
    policies = {step.urn: grants(step.old.get("policy")) or [] for step in steps if step.type == _POLICY}
    by_role: dict[str, list[Grant]] = {}
    for step in steps:
        if step.type == _ATTACHMENT and step.op == "delete" and step.old_state:
            sources = step.old_state.property_dependencies
            for role, policy in itertools.product(sources.get("role") or [], sources.get("policyArn") or []):
                by_role.setdefault(role, []).extend(policies.get(policy, []))
    return by_role


def _aws(step: Step, created: set[str], account: str | None, detached: dict[str, list[Grant]]) -> Iterator[Finding]:
    fresh = _holder_is_new(step, created)
    before = _documents(step.old)
    roles = step.new_state.property_dependencies.get("role") or [] if step.type == _INSIDE and step.new_state else []
    moved = [grant for role in roles for grant in detached.get(role, [])]
    for key, value in sorted(_documents(step.new).items()):
        if (
            (key in _CALLED or key.startswith(_INLINE))
            and step.type not in _NO_DOCUMENTS
            and (is_unknown(value) or value == SECRET)
        ):
            if is_unknown(value) or key in roots(step):
                why = "known only after up" if is_unknown(value) else "a secret"
                title = f"{_CALLED.get(key, key)} is {why}, so its permissions cannot be compared here"
                yield _finding(step, "low" if fresh and is_unknown(value) else "medium", title)
            continue
        after = grants(value)
        if after is None:
            continue
        added = widened([*(grants(before.get(key)) or []), *moved], after)
        if added:
            outside = any(_is_outside(grant, account) for grant in added)
            severity = _aws_severity(added, fresh, _is_new(step, created) and not outside)
            title = _aws_title(key, added) + (" (another account)" if outside else "")
            yield _finding(step, severity, title, *map(str, added))
    yield from _attached(step, fresh)


def _documents(inputs: dict[str, Any]) -> dict[str, Any]:
    """A resource's properties, and the policies that a role holds itself, by name."""
    inline = objects(inputs.get("inlinePolicies"))
    return {
        **inputs,
        "permission": of_permission(inputs),
        **{f"{_INLINE}{each.get('name', '')}": each.get("policy") for each in inline},
    }


def _bounds_deleted(step: Step, deleted: set[str]) -> Iterator[Finding]:
    """Denials that are deleted with their resource, while what they bounded stays."""
    sources = step.old_state.property_dependencies if step.old_state else {}
    on = {urn for urns in sources.values() for urn in urns or []}
    if on and on <= deleted:
        return
    for key in _CALLED:
        lost = widened(grants(step.old.get(key)) or [], [])
        if lost:
            yield _finding(step, "high", _aws_title(key, lost), *map(str, lost))


def _attached(step: Step, fresh: bool) -> Iterator[Finding]:
    """Managed policies and boundaries, which the stack names but does not define."""
    bound = step.old.get("permissionsBoundary")
    if bound and bound != step.new.get("permissionsBoundary"):
        now = str(step.new.get("permissionsBoundary") or "")
        lifted = not now or now.endswith(_ADMINISTRATORS)
        title = "the permissions boundary goes away or bounds nothing" if lifted else "the permissions boundary changes"
        yield _finding(step, "critical" if lifted else "high", title, str(bound), *([now] if now else []))
    old, new = (_arns(side) for side in (step.old, step.new))
    added = sorted(new - old)
    if added:
        admin = any(arn.endswith(_ADMINISTRATORS) for arn in added)
        severity: Severity = "critical" if admin else "low" if fresh else "high"
        yield _finding(step, severity, "managed policies are attached", *added)


def _arns(inputs: dict[str, Any]) -> set[str]:
    return {arn for key in ("policyArn", "policyArns", "managedPolicyArns") for arn in texts(inputs.get(key))}


def _aws_severity(added: list[Grant], fresh: bool, new: bool) -> Severity:
    """Severity of what a document adds.

    Args:
        added: New grants and removed denials.
        fresh: Whether the role or user that it is attached to is new.
        new: Whether everything that the document is attached to is new.
    """
    allowed = [grant for grant in added if grant.effect == "Allow" and not _own_key(grant)]
    if any(grant.public or (grant.total and grant.resource in ("*", "")) for grant in allowed):
        return "critical"
    if any(grant.effect == "Deny" for grant in added) or any(grant.total for grant in allowed):
        return "high"
    named = [grant for grant in allowed if grant.principal]
    if not named:
        return "low" if fresh else "high"
    if not new:
        return "high"
    return "low" if all(grant.principal.startswith("Service:") for grant in named) else "medium"


def _is_outside(grant: Grant, account: str | None) -> bool:
    """True if a grant is for an account other than the stack's."""
    named = _ACCOUNT.search(grant.principal)
    return grant.effect == "Allow" and named is not None and named[0] != account


def _own_key(grant: Grant) -> bool:
    """The account's root in a key policy: AWS's default, which lets IAM decide.

    Source: https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
    """
    return grant.action == "kms:*" and grant.principal.startswith("AWS:arn:") and grant.principal.endswith(":root")


def _aws_title(key: str, added: list[Grant]) -> str:
    marks = []
    if any(grant.total for grant in added if grant.effect == "Allow"):
        marks.append("every action of a service")
    if any(grant.public for grant in added if grant.effect == "Allow"):
        marks.append("everybody")
    what = _CALLED.get(key, key)
    allowed = sum(grant.effect == "Allow" for grant in added)
    parts = [f"{what} adds {counted(allowed, 'permission')}"] if allowed else []
    if len(added) > allowed:
        parts.append(f"{what} takes away {counted(len(added) - allowed, 'denial')}")
    return "; ".join(parts) + (f" ({', '.join(marks)})" if marks else "")


def _gcp(step: Step, created: set[str]) -> Iterator[Finding]:
    fresh = _holder_is_new(step, created)
    before = set(_bindings(step, step.old))
    # A binding without a condition covers the same binding with one.
    wide = {replace(binding, condition="") for binding in _bindings(step, step.new)} & before
    new = set(_bindings(step, step.new)) - before
    added = sorted((binding for binding in new if replace(binding, condition="") not in wide), key=str)
    if added:
        severity = _gcp_severity(added, fresh, _is_on_new(step, created))
        yield _finding(step, severity, f"adds {counted(len(added), 'binding')}", *map(str, added))
    if is_unknown(step.new.get("policyData")):
        yield _finding(step, "medium", "policy is known only after up, so its bindings cannot be compared here")
    if step.type == _PROVIDER and step.old:
        lines = [f"{key}: {clean(step.old.get(key))} to {clean(step.new.get(key))}"
                 for key in ADMITS if step.old.get(key) != step.new.get(key)]  # fmt: skip
        if lines:
            yield _finding(step, "high", "admits other tokens than before", *lines)
    if "permissions" in step.new:
        new, old = (set(texts(side.get("permissions"))) for side in (step.new, step.old))
        wider = sorted(new - old)
        if wider:
            severity: Severity = "low" if step.op == "create" else "high"
            title = f"custom role adds {counted(len(wider), 'permission')}"
            yield _finding(step, severity, title, *wider)


def _gcp_severity(added: list[_Binding], fresh: bool, on_new: bool) -> Severity:
    if any(binding.member in _EVERYBODY or binding.role in _BASIC - {"roles/viewer"} for binding in added):
        return "critical"
    powerful = any(binding.role in _POWERFUL | _BASIC or binding.role.endswith(".admin") for binding in added)
    if powerful or not (fresh or on_new):
        return "high"
    return "low" if fresh or all(_AGENT.fullmatch(binding.member) for binding in added) else "medium"


def _bindings(step: Step, inputs: dict[str, Any]) -> Iterator[_Binding]:
    for one in [inputs, *objects(_policy(inputs).get("bindings"))]:
        yield from _of_one(step, inputs, one)
    if _LISTS.fullmatch(step.type):
        entry = [inputs[key] for key in ("entity", "iamMember", "specialGroup") if inputs.get(key)]
        listed = [*texts(inputs.get("roleEntities")), *(f"{inputs.get('role')}:{each}" for each in entry)]
        for each in [*listed, *filter(None, [_PREDEFINED.get(str(inputs.get("predefinedAcl")))])]:
            role, _, member = each.partition(":")
            yield _Binding(role, member, str(clean(inputs.get("bucket") or inputs.get("datasetId") or "")), "")


def _policy(inputs: dict[str, Any]) -> dict[str, Any]:
    policy = document(inputs.get("policyData"))
    return policy if isinstance(policy, dict) else {}


def _of_one(step: Step, inputs: dict[str, Any], binding: dict[str, Any]) -> Iterator[_Binding]:
    role = binding.get("role")
    members = binding.get("members") or [binding.get("member")]
    if not role or not members or "IAM" not in step.type.upper():
        return
    places = [
        f"{key} {_shown(step, key, value)}"
        for key, value in sorted(inputs.items())
        if key not in ("role", "member", "members", "condition", "etag", "location", "version", "region", "policyData")
    ]
    condition = binding.get("condition") or {}
    expression = str(condition.get("expression", "")) if isinstance(condition, dict) else UNKNOWN
    for member in members if isinstance(members, list) else [members]:
        yield _Binding(_shown(step, "role", role), _shown(step, "member", member), ", ".join(places), expression)


def _shown(step: Step, key: str, value: Any) -> str:
    """A value; an unknown one is named by the resources that it comes from."""
    if not is_unknown(value):
        return str(clean(value, "name"))
    sources = (step.new_state.property_dependencies.get(key) if step.new_state else None) or []
    names = sorted({urn.split("::", 3)[-1] for urn in sources})
    return f"{UNKNOWN[:-1]}, from {', '.join(names)})" if names else UNKNOWN


def _holder_is_new(step: Step, created: set[str]) -> bool:
    """True if this preview creates those who get permissions."""
    if step.op != "create" or not step.new_state:
        return False
    sources = step.new_state.property_dependencies
    held = [set(sources.get(key) or []) for key in facts(step.type.partition(":")[0]).HOLDERS if key in step.new]
    return all(urns and urns <= created for urns in held)


def _is_new(step: Step, created: set[str]) -> bool:
    """True if this preview creates a resource and everything that it is made from."""
    if step.op != "create" or not step.new_state:
        return False
    return {urn for urns in step.new_state.property_dependencies.values() for urn in urns or []} <= created


def _is_on_new(step: Step, created: set[str]) -> bool:
    """True if a binding is on a resource that this preview creates."""
    if step.op != "create" or not step.new_state:
        return False
    sources = step.new_state.property_dependencies
    on = {urn for key, urns in sources.items() if key not in ("member", "members", "role") for urn in urns or []}
    return bool(on) and on <= created


def _finding(step: Step, severity: Severity, title: str, *details: str) -> Finding:
    lines = details[:_MOST_LINES]
    if len(details) > len(lines):
        lines = (*lines, f"and {len(details) - len(lines)} more")
    return Finding(severity, "access-widened", step.name, step.urn, title, lines)
