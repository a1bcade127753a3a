"""Machines answer instance metadata version 2 only.

EC2 jobs of AWS Batch use the host's network, so user code reaches the metadata service. Version 1 would give the
machine's role to any program that can be tricked into one GET.
Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html
"""

from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule(
    "Every launch template requires version 2 of instance metadata.", HIGH, "aws:ec2/launchTemplate:LaunchTemplate"
)
def violations(args: Resource) -> Violations:
    if look(args.props, "metadataOptions", "httpEndpoint") == "disabled":
        return
    tokens = look(args.props, "metadataOptions", "httpTokens")
    if tokens is not UNKNOWN and tokens != "required":
        yield (
            f"metadataOptions.httpTokens is {tokens or 'not set'}: version 1 of instance metadata would answer. "
            'Set metadata_options(http_tokens="required").'
        )
