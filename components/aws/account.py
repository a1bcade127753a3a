"""The AWS account of a component's resources: number, region, partition."""

from __future__ import annotations

import asyncio
from functools import cached_property, lru_cache

import pulumi
import pulumi_aws as aws


class Account:
    """Account number, region and partition of a provider; no resources. Each is looked up at its first use."""

    def __init__(self, provider: pulumi.ProviderResource | None) -> None:
        self._opts = pulumi.InvokeOptions(provider=provider)

    @cached_property
    def number(self) -> pulumi.Output[str]:
        return aws.get_caller_identity_output(opts=self._opts).account_id

    @cached_property
    def region(self) -> pulumi.Output[str]:
        """The region's name, ``us-west-2``."""
        return aws.get_region_output(opts=self._opts).region

    @cached_property
    def partition(self) -> pulumi.Output[str]:
        """``aws``, or its equivalent in China and government regions."""
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


def account_of(parent: pulumi.Resource) -> Account:
    """The account of a component's resources. All components with one provider share what a run has looked up."""
    return _account(parent.get_provider("aws:index:Provider"), asyncio.get_running_loop())


@lru_cache(maxsize=64)
def _account(provider: pulumi.ProviderResource | None, run: object) -> Account:
    return Account(provider)
