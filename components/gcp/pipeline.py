"""A team's pipeline on GCP: its parts and their grants."""

from __future__ import annotations

import re
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ..base import team_labels
from ..config import StackConfig
from ..config.later import plain
from ..describe import as_text, describe
from ..images import resolve, shared_repositories
from ..services.queues import make_queues, monitored_by, outputs_of
from ..shared import check_region, shared_output
from .budget import GcpBudget, GcpBudgetArgs
from .file_system import GcpFileSystem, GcpFileSystemArgs, range_of
from .identity import GcpIdentity, GcpIdentityArgs
from .key import key_name
from .logs import GcpLogs, GcpLogsArgs
from .member import Member, account_id
from .monitoring.monitoring import GcpMonitoring, GcpMonitoringArgs
from .network import GcpNetwork, GcpNetworkArgs
from .project import Project
from .registry import GcpRegistry, GcpRegistryArgs
from .sending.arrivals import GcpArrivals, GcpArrivalsArgs
from .sending.sender import GcpSender, GcpSenderArgs
from .shared import GcpSharedOutput
from .store import GcpStore, GcpStoreArgs


class GcpParts:
    """The parts of a pipeline on GCP, children of the pipeline. The queues' services read the public ones."""

    def __init__(self, name: str, config: StackConfig, parent: pulumi.ComponentResource) -> None:
        self.config = config
        self.child = pulumi.ResourceOptions(parent=parent)
        self.labels = {**config.company_tags, **team_labels(config.team, config.environment)}
        project = Project(parent)
        network, registry = config.network.shared, config.registry.shared
        self._shared_network = shared_output(name, "network", network, GcpSharedOutput, parent)
        self._shared_registry = shared_output(name, "registry", registry, GcpSharedOutput, parent)
        if network is not None:
            region = gcp.organizations.get_client_config(opts=pulumi.InvokeOptions(parent=parent)).region
            check_region(network, self._shared_network, region)
        self.store = self._make_store(name)
        self.logs = self._make_logs(name)
        self.network = self._make_network(name)
        self._registry = self._make_registry(name)
        access = GcpIdentityArgs(plain(config.access.submitters), advise=config.access.advise)
        self.identity = GcpIdentity(f"{name}-identity", access, self.child)
        self._budget = self._make_budget(name)
        self.file_systems = {key: self._make_file_system(name, key) for key in config.file_systems}
        self.disk_key = self._make_key(parent, project, "disks", config.disks.kms_key, "compute-system")
        self.topic_key = self._make_key(parent, project, "topics", config.topics.kms_key, "gcp-sa-pubsub")
        self._services = make_queues(name, config, self)
        self._monitoring = self._make_monitoring(name)
        self._grant_machines()
        self._grant_submitters()
        for each in self._services:
            each.grant()
        self._arrivals = self._make_arrivals(name)
        self.descriptor = describe(
            config,
            region=project.region,
            account=project.id,
            store_uri=self.store.uri,
            log_group=self.logs.bucket,
            queues=self._services,
            secrets=self.identity.keep_secrets(self.labels) if config.access.personal_secrets else None,
            events={key: queue for each in self._arrivals for key, queue in each.subscriptions.items()},
        )
        self.descriptor_uri = self.store.publish(as_text(self.descriptor))
        self._sender = self._make_sender(name)
        parts = [self.store, self.logs, self.network, self._registry, self.identity]
        self.all: list[pulumi.Resource] = [*parts, *self._budget, *self._monitoring, *self._arrivals, *self._sender]
        self.all += [resource for each in self._services for resource in each.resources]
        self.all += self.file_systems.values()

    def _make_store(self, name: str) -> GcpStore:
        args = GcpStoreArgs(
            **self.config.store.model_dump(),
            purge=self.config.may_purge,
            imported=self.config.imports.store,
            labels=self.labels,
        )
        return GcpStore(f"{name}-store", args, self.child)

    def _make_logs(self, name: str) -> GcpLogs:
        args = GcpLogsArgs(**self.config.logs.model_dump(), purge=self.config.may_purge, labels=self.labels)
        return GcpLogs(f"{name}-logs", args, self.child)

    def _make_key(
        self, parent: pulumi.Resource, project: Project, what: str, wanted: pulumi.Input[str] | None, agent: str
    ) -> pulumi.Output[str] | None:
        """A key of something that has no component of its own; a new one admits the service agent that uses it."""
        member, purge = Member(what, project.agent(agent)), self.config.may_purge
        return key_name(parent, wanted, project, member, self.labels, purge=purge, what=what)

    def _make_network(self, name: str) -> GcpNetwork:
        existing, new = self.config.network.existing, self.config.network.create
        may_replace = self.config.may_replace
        if (shared := self._shared_network) is not None:
            args = GcpNetworkArgs(network=shared.network, subnetwork=shared.subnetwork)
        elif existing is not None:
            args = GcpNetworkArgs(network=existing.network, subnetwork=existing.subnetwork)
        elif new is not None:
            args = GcpNetworkArgs(
                egress=new.egress,
                cidr=new.cidr,
                flow_logs_days=new.flow_logs_days,
                flow_logs_key=self.logs.key,
                purge=self.config.may_purge,
                replace=may_replace,
            )
        else:
            args = GcpNetworkArgs(replace=may_replace)
        return GcpNetwork(f"{name}-network", args, self.child)

    def _make_registry(self, name: str) -> GcpRegistry:
        args = GcpRegistryArgs(
            **self.config.registry.model_dump(exclude={"repositories", "shared"}),
            repository=name,
            purge=self.config.may_purge,
            imported=self.config.imports.repository,
            labels=self.labels,
        )
        return GcpRegistry(f"{name}-registry", args, self.child)

    def _make_budget(self, name: str) -> list[GcpBudget]:
        """The project's budget, or none."""
        wanted = self.config.budget
        if wanted is None:
            return []
        return [GcpBudget(f"{name}-budget", GcpBudgetArgs(**wanted.model_dump(), labels=self.labels), self.child)]

    def _make_file_system(self, name: str, key: str) -> GcpFileSystem:
        config, shared, existing = self.config, self._shared_network, self.config.network.existing
        given = shared or existing
        network, subnetwork = plain([given.network, given.subnetwork]) if given else (None, None)
        project = gcp.organizations.get_client_config(opts=pulumi.InvokeOptions(parent=self.network)).project
        args = GcpFileSystemArgs(
            file_system=key,
            settings=config.file_systems[key],
            network=self.network.network,
            client_range=self.network.range or range_of(subnetwork or "", self.network),
            host_project=network is not None and not network.startswith(f"projects/{project}/"),
            purge=config.may_purge,
            labels=self.labels,
        )
        return GcpFileSystem(f"{name}-fs-{key}", args, self.child)

    def pulled(self, reference: str) -> pulumi.Input[str]:
        """The reference by which machines pull an image that a stack file names."""
        shared = self._shared_registry
        return resolve(reference, self._registry.url, shared.registry_url if shared else None)

    def _make_monitoring(self, name: str) -> list[GcpMonitoring]:
        """The dashboard, queries and alarms, or none."""
        wanted = self.config.monitoring
        if not (wanted.makes_anything and (monitored := monitored_by(self._services))):
            return []
        args = GcpMonitoringArgs(
            **wanted.model_dump(exclude={"topic", "no_machine_minutes", "stalled_minutes", "job_channels", "owner"}),
            pipeline=name,
            owner=wanted.owner or self.config.team,
            log=self.logs.log,
            metrics={**self.logs.counted},
            **monitored,
            labels=self.labels,
        )
        return [GcpMonitoring(f"{name}-monitoring", args, self.child)]

    def _make_arrivals(self, name: str) -> list[GcpArrivals]:
        """The subscriptions of files that arrive, or none."""
        prefixes = {key: each.prefix for key, each in self.config.arrivals.items()}
        if not prefixes:
            return []
        purge = self.config.may_purge
        args = GcpArrivalsArgs(prefixes=prefixes, kms_key=self.topic_key, purge=purge, labels=self.labels)
        return [GcpArrivals(f"{name}-arrivals", args, self.child)]

    def _make_sender(self, name: str) -> list[GcpSender]:
        """The sender of templates, with its grants, or none."""
        config = self.config
        if not (config.schedules or config.arrivals):
            return []
        assert config.worker_image is not None, "the config's checks ask for it"
        args = GcpSenderArgs(
            image=self.pulled(config.worker_image),
            pipeline_uri=self.descriptor_uri,
            crons={key: each.cron for key, each in config.schedules.items()},
            timezones={key: each.timezone for key, each in config.schedules.items()},
            arrivals=bool(config.arrivals),
            log_bucket=self.logs.bucket,
            labels=self.labels,
        )
        sender = GcpSender(f"{name}-sender", args, self.child)
        self._grant_sender(sender.member)
        return [sender]

    def _grant_sender(self, sender: Member) -> None:
        """Let the sender do what a submitter may, on its own queues, and no more than read elsewhere."""
        config, named = self.config, [*self.config.schedules.values(), *self.config.arrivals.values()]
        queues = {queue for each in named for queue in each.queues or config.queues}
        self.store.grant_send(sender)
        self._registry.grant_pull(sender)
        self._grant_shared_pull(sender)
        self.identity.grant_data(sender, plain([*config.data.read, *config.data.write]), [])
        self.identity.grant_publish(sender, plain(config.monitoring.job_channels.values()))
        for each in self._services:
            each.grant_send(sender, queues)
        for each in self._arrivals:
            each.grant_take(sender)

    def _grant_machines(self) -> None:
        config, identity, worker = self.config, self.identity, self.identity.worker
        queues = config.queues.values()
        named = [queue.images["default"] for queue in queues]
        named += [queue.gcp.fuse_image for queue in queues if queue.gcp.fuse_image]
        self.store.grant_work(worker)
        self._registry.grant_pull(worker)
        identity.grant_data(worker, plain(config.data.read), plain(config.data.write))
        identity.grant_secrets(worker, plain(secret for queue in queues for secret in queue.secrets.values()))
        identity.grant_external_pull(worker, [*named, *config.worker_images.values()])
        identity.grant_publish(worker, plain(config.monitoring.job_channels.values()))
        self._grant_shared_pull(worker)

    def _grant_shared_pull(self, member: Member) -> None:
        shared = self._shared_registry
        if shared is not None and shared_repositories(self.config):
            self.identity.grant_shared_pull(member, shared.repository, shared.region)

    def _grant_submitters(self) -> None:
        for member in self.identity.submitters:
            self.store.grant_submit(member)
            self._registry.grant_pull(member)
            self._grant_shared_pull(member)
            self.logs.grant_read(member)
            self.identity.grant_publish(member, plain(self.config.monitoring.job_channels.values()))

    def outputs(self) -> dict[str, Any]:
        """Outputs of a `Pipeline` on GCP, by the names of its attributes."""
        monitoring = next(iter(self._monitoring), None)
        return {
            "store_bucket": self.store.bucket,
            "store_kms_key": self.store.kms_key,
            **outputs_of(self._services, "topics", "subscriptions"),
            "network": self.network.network,
            "subnetwork": self.network.subnetwork,
            "file_systems": {key: made.source for key, made in self.file_systems.items()},
            "registry_url": self._registry.url,
            "repository": self._registry.repository,
            "worker_account": self.identity.email,
            "submitters": plain(self.config.access.submitters),
            "log_bucket": self.logs.bucket,
            "dashboard": monitoring.dashboard if monitoring else None,
            "alarm_channels": monitoring.channels if monitoring else [],
        }


_NOT_THERE = re.compile("not found|has not been used in project|is disabled")
"""The provider's words for an account that does not exist, and Google's for an API without which none can.

Source: https://github.com/hashicorp/terraform-provider-google (HandleDataSourceNotFoundError)
"""


def standing(name: str, config: StackConfig, parent: pulumi.Resource) -> str | None:
    """The machines' service account of a pipeline of the same name in the project; None if there is none.

    Accounts have no labels. Their ids are fixed, so a second pipeline of the name would fail at this one.
    """
    account, opts = account_id(name, "worker"), pulumi.InvokeOptions(parent=parent)
    try:
        email = gcp.serviceaccount.get_account(account_id=account, opts=opts).email
    except Exception as error:
        if _NOT_THERE.search(str(error)):
            return None
        # Whether it is there is not known: a denied or broken answer must not let a second pipeline begin.
        raise
    return f"service account {email}" if email else None


PARTS = GcpParts
