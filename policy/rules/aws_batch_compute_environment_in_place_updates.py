"""A compute environment must stay updatable in place.

AWS Batch updates an environment without replacing it only when it uses the service-linked role, and a launch template
version that moves by itself is not applied by such an update.
Source: https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_policy import EnforcementLevel, ReportViolation, ResourceValidationArgs, ResourceValidationPolicy

from .values import UNKNOWN, look

TYPE = "aws:batch/computeEnvironment:ComputeEnvironment"
_SERVICE_LINKED = ":role/aws-service-role/batch.amazonaws.com/"


def violations(props: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a compute environment's inputs, each with its fix."""
    role = look(props, "serviceRole")
    if role and _SERVICE_LINKED not in role:
        yield (
            f"serviceRole is {role}: with a role of its own an environment is replaced where it could be updated. "
            "Remove service_role; AWS Batch then uses AWSServiceRoleForBatch."
        )
    template = look(props, "computeResources", "launchTemplate")
    if template is None or template is UNKNOWN:
        return
    version = look(template, "version")
    if version is None or version in ("", "$Latest", "$Default"):
        yield (
            f"launchTemplate.version is {version or 'not set'}: the environment would not follow the template. "
            "Give the concrete version: launch_template.latest_version.apply(str)."
        )


def _validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if args.resource_type == TYPE:
        for message in violations(args.props):
            report(message, None)


POLICY = ResourceValidationPolicy(
    name="aws-batch-compute-environment-in-place-updates",
    description="Compute environments use the service-linked role and a concrete launch template version.",
    enforcement_level=EnforcementLevel.MANDATORY,
    validate=_validate,
)
