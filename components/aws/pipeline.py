"""A team's pipeline on AWS: its parts and their grants."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from ..base import team_tags
from ..config import NewNetwork, StackConfig, repository_of, shared_repository_of
from ..config.checks.policies import looks_apart, submitter_policies
from ..config.later import ordered
from ..describe import as_text, describe
from ..images import own_repositories, resolve, shared_repositories
from ..services.queues import make_queues, monitored_by, outputs_of
from ..shared import check_region, shared_output
from .account import account_of
from .budget import AwsBudget, AwsBudgetArgs
from .file_system import AwsFileSystem, AwsFileSystemArgs
from .identity import AwsIdentity, AwsIdentityArgs, publish_statements
from .key import key_arn, launch_statements
from .logs import AwsLogs, AwsLogsArgs
from .monitoring.metrics import NAMESPACE
from .monitoring.monitoring import AwsMonitoring, AwsMonitoringArgs
from .network import AwsNetwork, AwsNetworkArgs, direct_hosts
from .policy import Statement
from .registry import (
    AwsRegistry,
    AwsRegistryArgs,
    ecr_repository,
    external_repositories,
    look_statements,
    mirrored_repositories,
)
from .sending.make import Sending
from .shared import AwsSharedOutput, repository_arns
from .store import AwsStore, AwsStoreArgs
from .submitter import advise_statements
from .subnets import zones_of


class AwsParts:
    """The parts of a pipeline on AWS, children of the pipeline. The queues' services read the public ones."""

    def __init__(self, name: str, config: StackConfig, parent: pulumi.ComponentResource) -> None:
        self.config = config
        self.account = account_of(parent)
        self.child = pulumi.ResourceOptions(parent=parent)
        self._own_tags = team_tags(config.team, config.environment)
        self.tags = {**config.company_tags, **self._own_tags}
        network, registry = config.network.shared, config.registry.shared
        self._shared_network = shared_output(name, "network", network, AwsSharedOutput, parent)
        self._shared_registry = shared_output(name, "registry", registry, AwsSharedOutput, parent)
        self._shared_arns = repository_arns(registry, self._shared_registry, shared_repositories(config))
        if network is not None:
            region = aws.get_region(opts=pulumi.InvokeOptions(parent=parent)).region
            check_region(network, self._shared_network, region)
        self.store = self._make_store(name)
        self.logs = self._make_logs(name)
        self.network = self._make_network(name)
        self.zones = self._subnet_zones(parent)
        self.registry = self._make_registry(name)
        self.identity = self._make_identity(name)
        self._secret, self._on_secret = self._keep_secrets()
        self._budget = self._make_budget(name)
        self.file_systems = {key: self._make_file_system(name, key) for key in config.file_systems}
        self.disk_key = self._make_disk_key(parent)
        self._services = make_queues(name, config, self)
        self._sending = Sending(name, self)
        self._monitoring = self._make_monitoring(name)
        self._grant()
        self.descriptor = describe(
            config,
            region=self.account.region,
            account=self.account.number,
            store_uri=self.store.uri,
            log_group=self.logs.group,
            queues=self._services,
            secrets=self._secret,
            events=self._sending.queues,
        )
        self.descriptor_uri = self.store.publish(as_text(self.descriptor))
        parts = [self.store, self.logs, self.network, self.registry, self.identity]
        self.all: list[pulumi.Resource] = [*parts, *self._budget, *self._monitoring]
        self.all += [resource for each in self._services for resource in each.resources]
        self.all += [*self.file_systems.values(), *self._sending.resources]

    def _make_store(self, name: str) -> AwsStore:
        args = AwsStoreArgs(
            **self.config.store.model_dump(exclude={"soft_delete_days"}),
            purge=self.config.may_purge,
            imported=self.config.imports.store,
            tags=self.tags,
        )
        return AwsStore(f"{name}-store", args, self.child)

    def _make_logs(self, name: str) -> AwsLogs:
        archive = self.config.logs.archive == "bucket"
        args = AwsLogsArgs(
            **self.config.logs.model_dump(exclude={"archive"}),
            metric_namespace=f"{NAMESPACE}/{name}",
            archive_bucket_arn=self.store.arn if archive else None,
            archive_kms_key_arn=self.store.key_arn if archive else None,
            purge=self.config.may_purge,
            permission_boundary=self.config.permission_boundary,
            tags=self.tags,
        )
        return AwsLogs(f"{name}-logs", args, self.child)

    def _make_network(self, name: str) -> AwsNetwork:
        existing, new = self.config.network.existing, self.config.network.create
        if (shared := self._shared_network) is not None:
            args = AwsNetworkArgs(vpc_id=shared.vpc_id, subnet_ids=[*shared.subnet_ids], tags=self.tags)
        elif existing is not None:
            args = AwsNetworkArgs(vpc_id=existing.vpc_id, subnet_ids=existing.subnet_ids, tags=self.tags)
        elif new is not None:
            services = self.config.extra_services
            args = AwsNetworkArgs(
                **new.model_dump(),
                extra_endpoints=services,
                flow_logs_key=self.logs.key_arn,
                permission_boundary=self.config.permission_boundary,
                tags=self.tags,
            )
        else:
            args = AwsNetworkArgs(tags=self.tags)
        return AwsNetwork(f"{name}-network", args, self.child)

    def outbound(self) -> dict[str, Any]:
        """Arguments of a queue: the proxy, what goes past it, and the authorities to trust."""
        config, new, shared = self.config, self.config.network.create or NewNetwork(), self._shared_network
        arguments: dict[str, Any] = {"certificates": config.certificates}
        if config.proxy is None:
            return arguments
        made = [] if config.network.existing else direct_hosts(shared.egress if shared else new.egress, self.network)
        return {**arguments, "proxy": config.proxy.url, "no_proxy": [*made, *(config.proxy.no_proxy or [])]}

    def _subnet_zones(self, parent: pulumi.Resource) -> list[str]:
        """Zones of the machines' subnets; looked up in an existing network only if they are needed."""
        existing, shared = self.config.network.existing, self._shared_network
        given = shared.subnet_ids if shared else existing.subnet_ids if existing else None
        if given and (self.config.file_systems or any(each.machines.zones for each in self.config.queues.values())):
            return zones_of(given, parent)
        return self.network.zones

    def security_groups(self) -> list[pulumi.Input[str]]:
        """The team's own group, which its file systems admit, and the shared network's, which its endpoints admit."""
        own: list[pulumi.Input[str]] = [self.network.security_group_id]
        return [*own, self._shared_network.security_group_id] if self._shared_network else own

    def pulled(self, reference: str) -> pulumi.Input[str]:
        """The reference by which machines pull an image that a stack file names."""
        repository = repository_of(reference)
        if repository in self.config.imports.repositories:
            return pulumi.Output.concat(
                self.registry.urls[repository], reference.removeprefix(f"registry://{repository}")
            )
        shared = self._shared_registry
        return resolve(reference, self.registry.url, shared.registry_url if shared else None)

    def _worker_repositories(self) -> list[pulumi.Input[str]]:
        """ARNs of the repositories that hold the workers' images, each once."""
        images = {image.partition("@")[0]: image for image in self.config.worker_images.values()}
        return [arn for image in images.values() for arn in self._repositories_of(image)]

    def _repositories_of(self, image: str) -> list[pulumi.Input[str]]:
        if own := repository_of(image):
            return [self.registry.arns[own]]
        if shared := shared_repository_of(image):
            return [*repository_arns(self.config.registry.shared, self._shared_registry, [shared])]
        return [arn for arn in (ecr_repository(image),) if arn]

    def _make_registry(self, name: str) -> AwsRegistry:
        args = AwsRegistryArgs(
            **self.config.registry.model_dump(exclude={"repositories", "shared"}),
            namespace=name,
            repositories=own_repositories(self.config),
            purge=self.config.may_purge,
            imported=self.config.imports.repositories,
            tags=self.tags,
        )
        return AwsRegistry(f"{name}-registry", args, self.child)

    def _make_identity(self, name: str) -> AwsIdentity:
        args = AwsIdentityArgs(
            permission_boundary=self.config.permission_boundary,
            submitters=list(self.config.access.submitters),
            tags=self.tags,
        )
        return AwsIdentity(f"{name}-identity", args, self.child)

    def _keep_secrets(self) -> tuple[pulumi.Output[str] | None, list[Statement]]:
        """The secret of the only submitter's personal secrets and their permissions on it, or neither."""
        if not self.config.access.personal_secrets:
            return None, []
        return self.identity.keep_secrets(purge=self.config.may_purge)

    def _make_monitoring(self, name: str) -> list[AwsMonitoring]:
        """The dashboard, queries and alarms, or none."""
        wanted = self.config.monitoring
        if not (wanted.makes_anything and (monitored := monitored_by(self._services))):
            return []
        args = AwsMonitoringArgs(
            **wanted.model_dump(exclude={"channels", "job_channels", "owner"}),
            pipeline=name,
            owner=wanted.owner or self.config.team,
            log_group=self.logs.group,
            **monitored,
            metric_namespace=f"{NAMESPACE}/{name}",
            tags=self.tags,
        )
        return [AwsMonitoring(f"{name}-monitoring", args, self.child)]

    def _make_budget(self, name: str) -> list[AwsBudget]:
        """The budget for the pipeline's tags, or none."""
        wanted = self.config.budget
        if wanted is None:
            return []
        given = wanted.model_dump(exclude={"billing_account"})
        args = AwsBudgetArgs(**given, topic=self.config.monitoring.topic, cost_tags=self._own_tags, tags=self.tags)
        return [AwsBudget(f"{name}-budget", args, self.child)]

    def _make_file_system(self, name: str, key: str) -> AwsFileSystem:
        config = self.config
        mounts = [mount for queue in config.queues.values() for mount in queue.mounts.values()]
        args = AwsFileSystemArgs(
            vpc_id=self.network.vpc_id,
            subnet_ids=self.network.subnet_ids,
            zones=self.zones,
            client_group_id=self.network.security_group_id,
            client_role_arn=self.identity.job_role.arn,
            file_system=key,
            settings=config.file_systems[key],
            writable=any(mount.file_system == key and not mount.read_only for mount in mounts),
            purge=config.may_purge,
            tags=self.tags,
        )
        return AwsFileSystem(f"{name}-fs-{key}", args, self.child)

    def _make_disk_key(self, parent: pulumi.ComponentResource) -> pulumi.Output[str] | None:
        """The key of the machines' volumes; a new one admits the roles that start machines."""
        wanted, admitted = self.config.disks.kms_key, launch_statements(self.account)
        return key_arn(parent, wanted, self.account, self.tags, admitted, purge=self.config.may_purge, what="disks")

    def _grant(self) -> None:
        config, identity = self.config, self.identity
        queues = config.queues.values()
        self.store.grant_work(identity.job_role)
        identity.grant_data(identity.job_role, config.data.read, config.data.write, config.data.kms_keys)
        self.logs.grant_write(identity.execution_role)
        self.registry.grant_pull(identity.execution_role)
        outside = [*external_repositories(config), *self._shared_arns]
        identity.grant_external_pull(identity.execution_role, outside)
        identity.grant_import(identity.execution_role, mirrored_repositories(config))
        identity.grant_secrets(identity.execution_role, [arn for queue in queues for arn in queue.secrets.values()])
        topics = ordered(config.monitoring.job_channels.values())
        identity.grant_publish(identity.job_role, topics)
        mounted = sorted({mount.s3 for queue in queues for mount in queue.mounts.values() if mount.s3})
        identity.grant_data(identity.instance_role, mounted, [], config.data.kms_keys)
        if config.worker_images:
            self.store.grant_machines(identity.instance_role)
            identity.grant_worker(identity.instance_role, self._worker_repositories())
        arm64 = any("arm64" in queue.architectures("aws") for queue in queues)
        first, *more = [self.submit_statements(queues) for queues in submitter_policies(config)]
        looks = [
            *self.registry.look_statements(processors=arm64),
            *look_statements(self._shared_arns, processors=arm64),
            *publish_statements(topics),
            *(self.store.template_statements() if config.sends else []),
        ]
        apart = looks_apart(config)
        identity.grant_submitters(
            [
                *first,
                *(statement for each in self._services for statement in each.job_statements()),
                *self.logs.read_statements(),
                *self.store.submit_statements(),
                *self._on_secret,
                *([] if apart else looks),
            ],
            *more,
            *([looks] if apart else []),
            advise=advise_statements(self.account.region) if config.access.advise else (),
        )
        for each in self._services:
            each.grant()

    def submit_statements(self, queues: list[str]) -> list[Statement]:
        """Submit to these queues; nothing without any."""
        return [statement for each in self._services for statement in each.submit_statements(queues)]

    def outputs(self) -> dict[str, Any]:
        """Outputs of a `Pipeline` on AWS, by the names of its attributes."""
        identity, monitoring = self.identity, next(iter(self._monitoring), None)
        return {
            "store_bucket": self.store.bucket,
            "store_arn": self.store.arn,
            "store_kms_key": self.store.key_arn,
            **outputs_of(self._services, "job_queue_arns"),
            "vpc_id": self.network.vpc_id,
            "subnet_ids": self.network.subnet_ids,
            "security_group_id": self.network.security_group_id,
            "file_systems": {key: made.arn for key, made in self.file_systems.items()},
            "registry_url": self.registry.url,
            "repository_arns": self.registry.arns,
            "job_role_arn": identity.job_role.arn,
            "instance_role_arn": identity.instance_role.arn,
            "execution_role_arn": identity.execution_role.arn,
            "submitter_policy_arns": identity.submitter_policy_arns,
            "submitter_role_arn": identity.submitter_role_arn,
            "log_group": self.logs.group,
            "dashboard": monitoring.dashboard if monitoring else None,
            "alarm_topic_arn": monitoring.topic if monitoring else None,
        }


def standing(name: str, config: StackConfig, parent: pulumi.Resource) -> str | None:
    """The machines' security group of a pipeline of the team and environment in the region; None if there is none.

    Every pipeline has one, and none outlives its stack. The pipeline's name does not count: another program may call it
    differently, and other groups may carry the team's tags.
    """
    wanted = {**team_tags(config.team, config.environment), "Name": "*-network-machines"}
    named = aws.ec2.GetSecurityGroupsFilterArgs
    filters = [named(name=f"tag:{key}", values=[value]) for key, value in wanted.items()]
    found = aws.ec2.get_security_groups(filters=filters, opts=pulumi.InvokeOptions(parent=parent)).ids
    return f"security group {found[0]}" if found else None


PARTS = AwsParts
