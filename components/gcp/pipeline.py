"""A team's pipeline on GCP: its parts and their grants."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_gcp as gcp

from components.base import team_labels
from components.config import NewNetwork, Queue, StackConfig
from components.describe import as_text, describe
from components.gcp.budget import GcpBudget, GcpBudgetArgs
from components.gcp.file_system import GcpFileSystem, GcpFileSystemArgs, range_of
from components.gcp.identity import GcpIdentity, GcpIdentityArgs
from components.gcp.logs import GcpLogs, GcpLogsArgs
from components.gcp.member import Member
from components.gcp.monitoring import GcpMonitoring, GcpMonitoringArgs
from components.gcp.network import GcpNetwork, GcpNetworkArgs
from components.gcp.project import Project
from components.gcp.registry import GcpRegistry, GcpRegistryArgs
from components.gcp.shared import GcpSharedOutput
from components.gcp.store import GcpStore, GcpStoreArgs
from components.images import resolve, shared_repositories
from components.services.pubsub.describe import described
from components.services.pubsub.reconciler import GcpReconciler, GcpReconcilerArgs
from components.services.pubsub.worker_pool import GcpWorkerPool, GcpWorkerPoolArgs
from components.shared import check_region, shared_output


class GcpParts:
    """The parts of a pipeline on GCP, children of the pipeline."""

    def __init__(self, name: str, config: StackConfig, parent: pulumi.ComponentResource) -> None:
        self._config = config
        self._child = pulumi.ResourceOptions(parent=parent)
        self._labels = team_labels(config.team, config.environment)
        project = Project(parent)
        network, registry = config.network.shared, config.registry.shared
        self._shared_network = shared_output(name, "network", network, GcpSharedOutput, parent)
        self._shared_registry = shared_output(name, "registry", registry, GcpSharedOutput, parent)
        if network is not None:
            region = gcp.organizations.get_client_config(opts=pulumi.InvokeOptions(parent=parent)).region
            check_region(network, self._shared_network, region)
        self._store = self._make_store(name)
        self._logs = self._make_logs(name)
        self._network = self._make_network(name)
        self._registry = self._make_registry(name)
        access = GcpIdentityArgs(list(config.access.submitters), advise=config.access.advise)
        self._identity = GcpIdentity(f"{name}-identity", access, self._child)
        self._budget = self._make_budget(name)
        self._file_systems = {key: self._make_file_system(name, key) for key in config.file_systems}
        self._pools = {key: self._make_pool(f"{name}-{key}", key, queue) for key, queue in config.queues.items()}
        self._reconciler = self._make_reconciler(name)
        self._monitoring = self._make_monitoring(name)
        self._grant_machines()
        self._grant_submitters()
        self._store.grant_fleet(self._reconciler.member)
        for pool in self._pools.values():
            pool.grant_messages(self._reconciler.member)
        self.descriptor = describe(
            config,
            region=project.region,
            account=project.id,
            store_uri=self._store.uri,
            log_group=self._logs.bucket,
            queues={key: described(config.queues[key], pool, self._image(key)) for key, pool in self._pools.items()},
        )
        self.descriptor_uri = self._store.publish(as_text(self.descriptor))
        parts = [self._store, self._logs, self._network, self._registry, self._identity, self._reconciler]
        self.all: list[pulumi.Resource] = [*parts, *self._budget, *self._monitoring, *self._pools.values()]
        self.all += self._file_systems.values()

    def _make_store(self, name: str) -> GcpStore:
        args = GcpStoreArgs(
            **self._config.store.model_dump(),
            purge=self._config.may_purge,
            imported=self._config.imports.store,
            labels=self._labels,
        )
        return GcpStore(f"{name}-store", args, self._child)

    def _make_logs(self, name: str) -> GcpLogs:
        args = GcpLogsArgs(**self._config.logs.model_dump(), purge=self._config.may_purge, labels=self._labels)
        return GcpLogs(f"{name}-logs", args, self._child)

    def _make_network(self, name: str) -> GcpNetwork:
        existing, new = self._config.network.existing, self._config.network.create
        may_replace = self._config.may_replace
        if (shared := self._shared_network) is not None:
            args = GcpNetworkArgs(network=shared.network, subnetwork=shared.subnetwork)
        elif existing is not None:
            args = GcpNetworkArgs(network=existing.network, subnetwork=existing.subnetwork)
        elif new is not None:
            args = GcpNetworkArgs(egress=new.egress, cidr=new.cidr, replace=may_replace)
        else:
            args = GcpNetworkArgs(replace=may_replace)
        return GcpNetwork(f"{name}-network", args, self._child)

    def _make_registry(self, name: str) -> GcpRegistry:
        args = GcpRegistryArgs(
            **self._config.registry.model_dump(exclude={"repositories", "shared"}),
            repository=name,
            purge=self._config.may_purge,
            imported=self._config.imports.repository,
            labels=self._labels,
        )
        return GcpRegistry(f"{name}-registry", args, self._child)

    def _make_budget(self, name: str) -> list[GcpBudget]:
        """The project's budget, or none."""
        wanted = self._config.budget
        if wanted is None:
            return []
        return [GcpBudget(f"{name}-budget", GcpBudgetArgs(**wanted.model_dump(), labels=self._labels), self._child)]

    def _make_file_system(self, name: str, key: str) -> GcpFileSystem:
        config, shared, existing = self._config, self._shared_network, self._config.network.existing
        given = shared or existing
        network, subnetwork = (given.network, given.subnetwork) if given else (None, None)
        project = gcp.organizations.get_client_config(opts=pulumi.InvokeOptions(parent=self._network)).project
        args = GcpFileSystemArgs(
            file_system=key,
            settings=config.file_systems[key],
            network=self._network.network,
            client_range=range_of(subnetwork, self._network)
            if subnetwork
            else (config.network.create or NewNetwork()).cidr,
            host_project=network is not None and not network.startswith(f"projects/{project}/"),
            purge=config.may_purge,
            labels=self._labels,
        )
        return GcpFileSystem(f"{name}-fs-{key}", args, self._child)

    def _image(self, queue: str) -> pulumi.Input[str]:
        return self._pulled(self._config.queues[queue].images["default"])

    def _pulled(self, reference: str) -> pulumi.Input[str]:
        shared = self._shared_registry
        return resolve(reference, self._registry.url, shared.registry_url if shared else None)

    def _make_pool(self, name: str, key: str, queue: Queue) -> GcpWorkerPool:
        workers = [self._config.worker_of(kind) for kind in ("x86_64", "arm64")]
        x86_64, arm64 = (self._pulled(worker) if worker else None for worker in workers)
        existing = self._config.imports.queues.get(key)
        args = GcpWorkerPoolArgs(
            queue=key,
            settings=queue,
            image=self._image(key),
            network=self._network.network,
            subnetwork=self._network.subnetwork,
            service_account_email=self._identity.email,
            bucket=self._store.bucket,
            external_address=self._network.external_addresses,
            log=self._logs.log,
            worker_image=x86_64,
            worker_image_arm64=arm64,
            file_systems={key: made.source for key, made in self._file_systems.items()},
            imported_topic=existing.topic if existing else None,
            imported_subscription=existing.subscription if existing else None,
            replace=self._config.may_replace,
            purge=self._config.may_purge,
            labels=self._labels,
        )
        return GcpWorkerPool(name, args, self._child)

    def _make_reconciler(self, name: str) -> GcpReconciler:
        args = GcpReconcilerArgs(
            bucket=self._store.bucket,
            fleets=[pool.fleet for pool in self._pools.values()],
            log_bucket=self._logs.bucket,
            labels=self._labels,
        )
        return GcpReconciler(f"{name}-reconciler", args, self._child)

    def _make_monitoring(self, name: str) -> list[GcpMonitoring]:
        """The dashboard, queries and alarms, or none."""
        wanted = self._config.monitoring
        if not wanted.makes_anything:
            return []
        args = GcpMonitoringArgs(
            **wanted.model_dump(exclude={"topic", "stalled_minutes", "job_channels"}),
            pipeline=name,
            log=self._logs.log,
            metrics={**self._logs.counted},
            function=self._reconciler.function,
            subscriptions={
                key: pool.subscription.apply(lambda full: full.rpartition("/")[2]) for key, pool in self._pools.items()
            },
            labels=self._labels,
        )
        return [GcpMonitoring(f"{name}-monitoring", args, self._child)]

    def _grant_machines(self) -> None:
        config, identity, worker = self._config, self._identity, self._identity.worker
        queues = config.queues.values()
        named = [queue.images["default"] for queue in queues]
        named += [queue.gcp.fuse_image for queue in queues if queue.gcp.fuse_image]
        self._store.grant_work(worker)
        self._registry.grant_pull(worker)
        for pool in self._pools.values():
            pool.grant_work(worker)
        identity.grant_data(worker, config.data.read, config.data.write)
        identity.grant_secrets(worker, [secret for queue in queues for secret in queue.secrets.values()])
        identity.grant_external_pull(worker, [*named, *config.worker_images.values()])
        identity.grant_publish(worker, [*config.monitoring.job_channels.values()])
        self._grant_shared_pull(worker)

    def _grant_shared_pull(self, member: Member) -> None:
        shared = self._shared_registry
        if shared is not None and shared_repositories(self._config):
            self._identity.grant_shared_pull(member, shared.repository, shared.region)

    def _grant_submitters(self) -> None:
        for member in self._identity.submitters:
            self._store.grant_submit(member)
            self._registry.grant_pull(member)
            self._grant_shared_pull(member)
            self._logs.grant_read(member)
            self._identity.grant_publish(member, [*self._config.monitoring.job_channels.values()])
            for pool in self._pools.values():
                pool.grant_submit(member)

    def exports(self) -> dict[str, Any]:
        """Outputs of a stack, apart from the descriptor, by name."""
        return {
            "registry_url": self._registry.url,
            "worker_account": self._identity.email,
            "log_bucket": self._logs.bucket,
            "submitters": list(self._config.access.submitters),
        }


PARTS = GcpParts
