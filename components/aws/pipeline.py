"""A team's pipeline on AWS: its parts and their grants."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from components.aws.account import account_of
from components.aws.budget import AwsBudget, AwsBudgetArgs
from components.aws.file_system import AwsFileSystem, AwsFileSystemArgs
from components.aws.identity import AwsIdentity, AwsIdentityArgs, publish_statements
from components.aws.logs import AwsLogs, AwsLogsArgs
from components.aws.metrics import NAMESPACE
from components.aws.monitoring import AwsMonitoring, AwsMonitoringArgs
from components.aws.network import AwsNetwork, AwsNetworkArgs
from components.aws.policy import Statement
from components.aws.registry import AwsRegistry, AwsRegistryArgs, ecr_repository, external_repositories, look_statements
from components.aws.shared import AwsSharedOutput, repository_arns
from components.aws.store import AwsStore, AwsStoreArgs
from components.aws.submitter import advise_statements, jobs_statements, submit_statement
from components.aws.subnets import zones_of
from components.base import team_tags
from components.config import Queue, StackConfig, repository_of, shared_repository_of
from components.config.checks.policies import looks_apart, submitter_policies
from components.describe import as_text, describe
from components.images import own_repositories, resolve, shared_repositories
from components.services.batch.batch_queue import AwsBatchQueue, AwsBatchQueueArgs
from components.services.batch.describe import described
from components.shared import check_region, shared_output


class AwsParts:
    """The parts of a pipeline on AWS, children of the pipeline."""

    def __init__(self, name: str, config: StackConfig, parent: pulumi.ComponentResource) -> None:
        self._config = config
        self._account = account_of(parent)
        self._child = pulumi.ResourceOptions(parent=parent)
        self._tags = team_tags(config.team, config.environment)
        network, registry = config.network.shared, config.registry.shared
        self._shared_network = shared_output(name, "network", network, AwsSharedOutput, parent)
        self._shared_registry = shared_output(name, "registry", registry, AwsSharedOutput, parent)
        self._shared_arns = repository_arns(registry, self._shared_registry, shared_repositories(config))
        if network is not None:
            region = aws.get_region(opts=pulumi.InvokeOptions(parent=parent)).region
            check_region(network, self._shared_network, region)
        self._store = self._make_store(name)
        self._logs = self._make_logs(name)
        self._network = self._make_network(name)
        self._zones = self._subnet_zones(parent)
        self._registry = self._make_registry(name)
        self._identity = self._make_identity(name)
        self._budget = self._make_budget(name)
        self._file_systems = {key: self._make_file_system(name, key) for key in config.file_systems}
        self._queues = {key: self._make_queue(f"{name}-{key}", key, queue) for key, queue in config.queues.items()}
        self._monitoring = self._make_monitoring(name)
        self._grant()
        self.descriptor = describe(
            config,
            region=self._account.region,
            account=self._account.number,
            store_uri=self._store.uri,
            log_group=self._logs.group,
            queues={key: described(config.queues[key], queue) for key, queue in self._queues.items()},
        )
        self.descriptor_uri = self._store.publish(as_text(self.descriptor))
        parts = [self._store, self._logs, self._network, self._registry, self._identity]
        self.all: list[pulumi.Resource] = [*parts, *self._budget, *self._monitoring, *self._queues.values()]
        self.all += self._file_systems.values()

    def _make_store(self, name: str) -> AwsStore:
        args = AwsStoreArgs(
            **self._config.store.model_dump(exclude={"soft_delete_days"}),
            purge=self._config.may_purge,
            imported=self._config.imports.store,
            tags=self._tags,
        )
        return AwsStore(f"{name}-store", args, self._child)

    def _make_logs(self, name: str) -> AwsLogs:
        archive = self._config.logs.archive == "bucket"
        args = AwsLogsArgs(
            **self._config.logs.model_dump(exclude={"archive"}),
            metric_namespace=f"{NAMESPACE}/{name}",
            archive_bucket_arn=self._store.arn if archive else None,
            archive_kms_key_arn=self._store.key_arn if archive else None,
            purge=self._config.may_purge,
            permission_boundary=self._config.permission_boundary,
            tags=self._tags,
        )
        return AwsLogs(f"{name}-logs", args, self._child)

    def _make_network(self, name: str) -> AwsNetwork:
        existing, new = self._config.network.existing, self._config.network.create
        if (shared := self._shared_network) is not None:
            args = AwsNetworkArgs(vpc_id=shared.vpc_id, subnet_ids=[*shared.subnet_ids], tags=self._tags)
        elif existing is not None:
            args = AwsNetworkArgs(vpc_id=existing.vpc_id, subnet_ids=[*(existing.subnet_ids or [])], tags=self._tags)
        elif new is not None:
            services = self._config.extra_services
            args = AwsNetworkArgs(**new.model_dump(), extra_endpoints=services, tags=self._tags)
        else:
            args = AwsNetworkArgs(tags=self._tags)
        return AwsNetwork(f"{name}-network", args, self._child)

    def _subnet_zones(self, parent: pulumi.Resource) -> list[str]:
        """Zones of the machines' subnets; looked up in an existing network only if they are needed."""
        existing, shared = self._config.network.existing, self._shared_network
        given = shared.subnet_ids if shared else existing.subnet_ids if existing else None
        if given and (self._config.file_systems or any(each.machines.zones for each in self._config.queues.values())):
            return zones_of(given, parent)
        return self._network.zones

    def _security_groups(self) -> list[pulumi.Input[str]]:
        """The team's own group, which its file systems admit, and the shared network's, which its endpoints admit."""
        own: list[pulumi.Input[str]] = [self._network.security_group_id]
        return [*own, self._shared_network.security_group_id] if self._shared_network else own

    def _pulled(self, reference: str) -> pulumi.Input[str]:
        repository = repository_of(reference)
        if repository in self._config.imports.repositories:
            return pulumi.Output.concat(
                self._registry.urls[repository], reference.removeprefix(f"registry://{repository}")
            )
        shared = self._shared_registry
        return resolve(reference, self._registry.url, shared.registry_url if shared else None)

    def _worker_repositories(self) -> list[pulumi.Input[str]]:
        """ARNs of the repositories that hold the workers' images, each once."""
        images = {image.partition("@")[0]: image for image in self._config.worker_images.values()}
        return [arn for image in images.values() for arn in self._repositories_of(image)]

    def _repositories_of(self, image: str) -> list[pulumi.Input[str]]:
        if own := repository_of(image):
            return [self._registry.arns[own]]
        if shared := shared_repository_of(image):
            return [*repository_arns(self._config.registry.shared, self._shared_registry, [shared])]
        return [arn for arn in (ecr_repository(image),) if arn]

    def _make_registry(self, name: str) -> AwsRegistry:
        args = AwsRegistryArgs(
            **self._config.registry.model_dump(exclude={"repositories", "shared"}),
            namespace=name,
            repositories=own_repositories(self._config),
            purge=self._config.may_purge,
            imported=self._config.imports.repositories,
            tags=self._tags,
        )
        return AwsRegistry(f"{name}-registry", args, self._child)

    def _make_identity(self, name: str) -> AwsIdentity:
        args = AwsIdentityArgs(
            permission_boundary=self._config.permission_boundary,
            submitters=list(self._config.access.submitters),
            tags=self._tags,
        )
        return AwsIdentity(f"{name}-identity", args, self._child)

    def _make_monitoring(self, name: str) -> list[AwsMonitoring]:
        """The dashboard, queries and alarms, or none."""
        wanted = self._config.monitoring
        if not wanted.makes_anything:
            return []
        args = AwsMonitoringArgs(
            **wanted.model_dump(exclude={"channels", "job_channels"}),
            pipeline=name,
            log_group=self._logs.group,
            queues={key: queue.arn for key, queue in self._queues.items()},
            clusters={key: [*queue.clusters] for key, queue in self._queues.items()},
            metric_namespace=f"{NAMESPACE}/{name}",
            tags=self._tags,
        )
        return [AwsMonitoring(f"{name}-monitoring", args, self._child)]

    def _make_budget(self, name: str) -> list[AwsBudget]:
        """The budget for the pipeline's tags, or none."""
        wanted = self._config.budget
        if wanted is None:
            return []
        given = wanted.model_dump(exclude={"billing_account"})
        args = AwsBudgetArgs(**given, topic=self._config.monitoring.topic, cost_tags=self._tags, tags=self._tags)
        return [AwsBudget(f"{name}-budget", args, self._child)]

    def _make_file_system(self, name: str, key: str) -> AwsFileSystem:
        config = self._config
        mounts = [mount for queue in config.queues.values() for mount in queue.mounts.values()]
        args = AwsFileSystemArgs(
            vpc_id=self._network.vpc_id,
            subnet_ids=self._network.subnet_ids,
            zones=self._zones,
            client_group_id=self._network.security_group_id,
            client_role_arn=self._identity.job_role.arn,
            file_system=key,
            settings=config.file_systems[key],
            writable=any(mount.file_system == key and not mount.read_only for mount in mounts),
            purge=config.may_purge,
            tags=self._tags,
        )
        return AwsFileSystem(f"{name}-fs-{key}", args, self._child)

    def _make_queue(self, name: str, key: str, queue: Queue) -> AwsBatchQueue:
        identity, worker = self._identity, self._config.worker_of(*queue.architectures("aws"))
        existing = self._config.imports.queues.get(key)
        args = AwsBatchQueueArgs(
            queue=key,
            settings=queue,
            images={image: self._pulled(reference) for image, reference in queue.images.items()},
            subnet_ids=self._network.subnet_ids,
            zones=self._zones,
            security_group_ids=self._security_groups(),
            instance_profile_arn=identity.instance_profile_arn,
            execution_role_arn=identity.execution_role.arn,
            job_role_arn=identity.job_role.arn,
            store_uri=self._store.uri,
            log_group=self._logs.group,
            team=self._config.team,
            environment=self._config.environment,
            worker_image=self._pulled(worker) if worker else None,
            reads_mounts=True,
            file_systems={key: made.source for key, made in self._file_systems.items()},
            imported=existing.job_queue if existing else None,
            replace=self._config.may_replace,
            tags=self._tags,
        )
        return AwsBatchQueue(name, args, self._child)

    def _grant(self) -> None:
        config, identity = self._config, self._identity
        queues = config.queues.values()
        self._store.grant_work(identity.job_role)
        identity.grant_data(identity.job_role, config.data.read, config.data.write, config.data.kms_keys)
        self._logs.grant_write(identity.execution_role)
        self._registry.grant_pull(identity.execution_role)
        outside = [*external_repositories(config), *self._shared_arns]
        identity.grant_external_pull(identity.execution_role, outside)
        identity.grant_secrets(identity.execution_role, [arn for queue in queues for arn in queue.secrets.values()])
        topics = sorted(config.monitoring.job_channels.values())
        identity.grant_publish(identity.job_role, topics)
        mounted = sorted({mount.s3 for queue in queues for mount in queue.mounts.values() if mount.s3})
        identity.grant_data(identity.instance_role, mounted, [], config.data.kms_keys)
        if config.worker_images:
            self._store.grant_machines(identity.instance_role)
            identity.grant_worker(identity.instance_role, self._worker_repositories())
        arm64 = any("arm64" in queue.architectures("aws") for queue in queues)
        first, *more = [self._submit_statements(queues) for queues in submitter_policies(config)]
        looks = [
            *self._registry.look_statements(processors=arm64),
            *look_statements(self._shared_arns, processors=arm64),
            *publish_statements(topics),
        ]
        apart = looks_apart(config)
        identity.grant_submitters(
            [
                *first,
                *jobs_statements(self._account, config.team, config.environment),
                *self._logs.read_statements(),
                *self._store.submit_statements(),
                *([] if apart else looks),
            ],
            *more,
            *([looks] if apart else []),
            advise=advise_statements(self._account.region) if config.access.advise else (),
        )

    def _submit_statements(self, queues: list[str]) -> list[Statement]:
        """Submit to these queues; nothing without any."""
        arns = [arn for queue in queues for arn in self._queues[queue].submit_arns]
        return [submit_statement(arns, self._config.team)] if arns else []

    def exports(self) -> dict[str, Any]:
        """Outputs of a stack, apart from the descriptor, by name."""
        identity = self._identity
        exports: dict[str, Any] = {
            "registry_url": self._registry.url,
            "job_role_arn": identity.job_role.arn,
            "instance_role_arn": identity.instance_role.arn,
            "execution_role_arn": identity.execution_role.arn,
            "log_group": self._logs.group,
        }
        if identity.submitter_policy_arn is not None:
            exports["submitter_policy_arn"] = identity.submitter_policy_arn
            exports["submitter_policy_arns"] = identity.submitter_policy_arns
        if identity.submitter_role_arn is not None:
            exports["submitter_role_arn"] = identity.submitter_role_arn
        return exports


PARTS = AwsParts
