"""Resources that an AWS account needs once, before the first team's stack."""

from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ..base import as_args, token
from .store import AwsStore, AwsStoreArgs

SERVICES = ("batch.amazonaws.com", "spot.amazonaws.com")
"""Source: https://docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles-batch-general.html and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html"""


@dataclass
class AwsBootstrapArgs:
    """Arguments of `AwsBootstrap`."""

    service_linked_roles: list[str] = field(default_factory=lambda: list(SERVICES))
    """Services to create a service-linked role for; leave out those that the account already has."""
    purge: bool = False
    """Lift the protection, and delete the bucket with the state of every stack in it."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsBootstrap(pulumi.ComponentResource):
    """The service-linked roles for Batch and Spot, and a bucket and key for the state of the teams' stacks.

    Makes: a service-linked role per service, and an `AwsStore` with a KMS key and versioning for the state.

    Costs while idle: the KMS key, about $1 per month, and the state's storage.

    Example:
        ```python
        account = AwsBootstrap("tidemill", AwsBootstrapArgs(tags={"owner": "ml-platform"}))
        pulumi.export("backend_url", account.backend_url)
        pulumi.export("secrets_provider", account.secrets_provider)
        ```
    """

    backend_url: pulumi.Output[str]
    """The argument of `pulumi login`."""
    secrets_provider: pulumi.Output[str]
    """The argument of `pulumi stack init --secrets-provider`."""
    state_arn: pulumi.Output[str]
    """ARN of the bucket with the state."""
    key_arn: pulumi.Output[str]
    """ARN of the key of the state and of its secrets."""

    def __init__(self, name: str, args: AwsBootstrapArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsBootstrapArgs, args)
        super().__init__(token(AwsBootstrap), name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        for service in args.service_linked_roles:
            aws.iam.ServiceLinkedRole(
                f"{name}-{service.split('.')[0]}", aws_service_name=service, tags=args.tags, opts=child
            )
        state = AwsStore(
            f"{name}-state", AwsStoreArgs(kms_key="create", versioning=True, purge=args.purge, tags=args.tags), child
        )
        assert state.key_arn is not None
        self.backend_url, self.state_arn, self.key_arn = state.uri, state.arn, state.key_arn
        self.secrets_provider = pulumi.Output.concat("awskms:///", state.key_arn)
        self.register_outputs({"backend_url": self.backend_url, "secrets_provider": self.secrets_provider})
