"""Where a component's resources are: account, region, partition."""

from __future__ import annotations

from functools import cached_property

import pulumi
import pulumi_aws as aws


class Account:
    """Account, region and partition of the provider that a component's children get; no resources.

    Each is asked for when it is first read: a stack has a component a queue, and most need one of them.

    Args:
        parent: the component; its provider answers.
    """

    def __init__(self, parent: pulumi.Resource) -> None:
        self._opts = pulumi.InvokeOptions(parent=parent)

    @cached_property
    def number(self) -> pulumi.Output[str]:
        """The account's number."""
        return aws.get_caller_identity_output(opts=self._opts).account_id

    @cached_property
    def region(self) -> pulumi.Output[str]:
        """The region's name, ``us-west-2``."""
        return aws.get_region_output(opts=self._opts).region

    @cached_property
    def partition(self) -> pulumi.Output[str]:
        """``aws``, or what stands for it in China and in government regions."""
        return self._partition.partition

    @cached_property
    def dns_suffix(self) -> pulumi.Output[str]:
        """``amazonaws.com``, or the partition's own."""
        return self._partition.dns_suffix

    @cached_property
    def _partition(self) -> pulumi.Output[aws.GetPartitionResult]:
        return aws.get_partition_output(opts=self._opts)

    def arn(self, service: str, resource: pulumi.Input[str], *, regional: bool = True) -> pulumi.Output[str]:
        """``arn:<partition>:<service>:<region>:<account>:<resource>``."""
        region = self.region if regional else ""
        return pulumi.Output.format("arn:{0}:{1}:{2}:{3}:{4}", self.partition, service, region, self.number, resource)
