"""`python -m ops quotas`: whether an account's or a project's quotas are enough for a stack's queues."""

import sys
from importlib import import_module

import click

from components.config.load import read_file
from ops.options import STACK
from ops.project import read_config, stack_file


@click.command()
@click.option("--stack", type=STACK, required=True, help="A stack of stacks/.")
def quotas(stack: str) -> None:
    """Compare quotas with the most that a stack may start and make.

    Reads the stack's region with your login: vCPUs by class, disks, Batch and the network on AWS; vCPUs, GPUs, disks
    and addresses on GCP. Needs servicequotas:GetServiceQuota, servicequotas:GetAWSDefaultServiceQuota,
    batch:DescribeJobQueues, batch:DescribeComputeEnvironments, ec2:DescribeVpcs, ec2:DescribeVpcEndpoints,
    ec2:DescribeInternetGateways and ec2:DescribeAddresses; on GCP compute.regions.get.

    Exits 1 if a quota is too small or could not be read, 2 if an argument or the stack file is wrong.
    """
    path, config = stack_file(stack), read_config(stack)
    settings = read_file(path)["config"]
    of_cloud = import_module(f"ops.clouds.{config.cloud}_quotas")
    if missing := [key for key in of_cloud.KEYS if not settings.get(key)]:
        raise click.UsageError(f"{path.name} must set {' and '.join(missing)}.")
    where = of_cloud.place(settings)
    short = of_cloud.short(settings, config)
    for quota in short:
        click.echo(str(quota))
    if short:
        click.echo(f"Ask for more in {where}: {of_cloud.request(settings)}, or lower max_cpus.")
        sys.exit(1)
    click.echo(f"The quotas of {where} are enough.")
