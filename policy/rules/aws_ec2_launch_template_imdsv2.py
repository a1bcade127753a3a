"""Machines answer instance metadata version 2 only.

EC2 jobs of AWS Batch use the host's network, so that user code reaches the metadata service; version 1 would hand the
machine's role to whatever can be tricked into one GET.
Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_policy import EnforcementLevel, ReportViolation, ResourceValidationArgs, ResourceValidationPolicy

from .values import UNKNOWN, look

TYPE = "aws:ec2/launchTemplate:LaunchTemplate"


def violations(props: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a launch template's inputs, with its fix."""
    if look(props, "metadataOptions", "httpEndpoint") == "disabled":
        return
    tokens = look(props, "metadataOptions", "httpTokens")
    if tokens is not UNKNOWN and tokens != "required":
        yield (
            f"metadataOptions.httpTokens is {tokens or 'not set'}: version 1 of instance metadata would answer. "
            'Set metadata_options(http_tokens="required").'
        )


def _validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if args.resource_type == TYPE:
        for message in violations(args.props):
            report(message, None)


POLICY = ResourceValidationPolicy(
    name="aws-ec2-launch-template-imdsv2",
    description="Every launch template requires IMDSv2.",
    enforcement_level=EnforcementLevel.MANDATORY,
    validate=_validate,
)
