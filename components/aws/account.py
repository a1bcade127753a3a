"""The AWS account of a component's resources: number, region, partition."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property, lru_cache

import pulumi
import pulumi_aws as aws

_CHINESE = ("ecr.api", "ecr.dkr")
"""Services whose interface endpoints have names of their own in China, of those that machines use."""


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

    def principal(self, service: str) -> pulumi.Output[str]:
        """The name of a service in policies: ``ec2.amazonaws.com``, of a few services another one in China.

        Source: https://github.com/aws/aws-cdk/blob/main/packages/aws-cdk-lib/region-info/lib/default.ts
        """

        def name(values: Mapping[str, str]) -> str:
            if values["partition"] != "aws-cn":
                return f"{service}.amazonaws.com"
            place = {"ec2": f".{values['suffix']}", "logs": f".{values['region']}.{values['suffix']}"}
            return f"{service}{place.get(service, '.amazonaws.com')}"

        return pulumi.Output.all(partition=self.partition, region=self.region, suffix=self.dns_suffix).apply(name)

    def endpoint(self, service: str, *, interface: bool = True) -> pulumi.Output[str]:
        """The name of a service's endpoint for VPCs: ``com.amazonaws.us-west-2.ecr.api``.

        Source: https://github.com/aws/aws-cdk/blob/main/packages/aws-cdk-lib/aws-ec2/lib/vpc-endpoint.ts
        """
        chinese = interface and service in _CHINESE
        prefix = self.partition.apply(lambda each: "cn." if chinese and each == "aws-cn" else "")
        return pulumi.Output.concat(prefix, "com.amazonaws.", self.region, ".", service)

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
