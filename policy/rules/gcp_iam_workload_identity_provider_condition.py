"""A workload identity provider admits one repository's tokens, not everybody's on the same host.

Source: https://cloud.google.com/iam/docs/workload-identity-federation-with-deployment-pipelines#conditions
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import CRITICAL, resource_rule
from .common.values import UNKNOWN, look

TYPE = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
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


POLICY = resource_rule(
    __name__,
    TYPE,
    violations=violations,
    description="Workload identity providers are bound to a repository.",
    severity=CRITICAL,
)
