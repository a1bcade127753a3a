"""Where a component's resources are: account, region, partition."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws


class Place:
    """Account, region and partition of the provider that a component's children get; no resources.

    Args:
        parent: the component; its provider answers.
    """

    def __init__(self, parent: pulumi.Resource) -> None:
        opts = pulumi.InvokeOptions(parent=parent)
        partition = aws.get_partition_output(opts=opts)
        self.account: pulumi.Output[str] = aws.get_caller_identity_output(opts=opts).account_id
        self.region: pulumi.Output[str] = aws.get_region_output(opts=opts).region
        self.partition: pulumi.Output[str] = partition.partition
        self.dns_suffix: pulumi.Output[str] = partition.dns_suffix

    def arn(self, service: str, resource: pulumi.Input[str], *, regional: bool = True) -> pulumi.Output[str]:
        """``arn:<partition>:<service>:<region>:<account>:<resource>``."""
        region = self.region if regional else ""
        return pulumi.Output.format("arn:{0}:{1}:{2}:{3}:{4}", self.partition, service, region, self.account, resource)
