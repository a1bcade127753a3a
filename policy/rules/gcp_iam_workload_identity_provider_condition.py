"""A workload identity provider admits one repository's tokens, not everybody's on the same host.

Source: https://cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines#conditions
"""

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


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
    if "repository" not in (condition or "").replace("repository_owner", ""):
        yield (
            f"attributeCondition is {condition or 'not set'}: tokens of any repository are admitted. "
            'Set it to assertion.repository == "owner/name", with the environment where it matters.'
        )
