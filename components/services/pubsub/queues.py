"""The queues of a pipeline that are on Pub/Sub, and their reconciler."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import pulumi

from ...config import Queue
from ..queues import ServiceQueues
from .describe import described
from .reconciler import GcpReconciler, GcpReconcilerArgs
from .worker_pool import GcpWorkerPool, GcpWorkerPoolArgs

if TYPE_CHECKING:
    from ...gcp.member import Member
    from ...gcp.pipeline import GcpParts


class PubsubQueues(ServiceQueues):
    """A pool of machines for each queue, and one reconciler."""

    parts: GcpParts

    def __init__(self, name: str, queues: Mapping[str, Queue], parts: GcpParts) -> None:
        super().__init__(name, queues, parts)
        self._pools = {key: self._make_pool(f"{name}-{key}", key, queue) for key, queue in queues.items()}
        self._reconciler = self._make_reconciler(name)
        self.resources = [self._reconciler, *self._pools.values()]

    def outputs(self) -> dict[str, dict[str, pulumi.Output[str]]]:
        return {
            "topics": {key: pool.topic for key, pool in self._pools.items()},
            "subscriptions": {key: pool.subscription for key, pool in self._pools.items()},
        }

    def monitored(self) -> dict[str, Any]:
        ids = {key: pool.subscription.apply(lambda full: full.rpartition("/")[2]) for key, pool in self._pools.items()}
        fleets = [pool.fleet for pool in self._pools.values()]
        return {"function": self._reconciler.function, "subscriptions": ids, "fleets": fleets}

    def _make_pool(self, name: str, key: str, queue: Queue) -> GcpWorkerPool:
        parts, config = self.parts, self.parts.config
        workers = [config.worker_of(kind) for kind in ("x86_64", "arm64")]
        x86_64, arm64 = (parts.pulled(worker) if worker else None for worker in workers)
        existing = config.imports.queues.get(key)
        args = GcpWorkerPoolArgs(
            queue=key,
            settings=queue,
            image=self._image(queue),
            network=parts.network.network,
            subnetwork=parts.network.subnetwork,
            service_account_email=parts.identity.email,
            bucket=parts.store.bucket,
            external_address=parts.network.external_addresses,
            log=parts.logs.log,
            worker_image=x86_64,
            worker_image_arm64=arm64,
            file_systems={key: made.source for key, made in parts.file_systems.items()},
            imported_topic=existing.topic if existing else None,
            imported_subscription=existing.subscription if existing else None,
            proxy=config.proxy.url if config.proxy else None,
            no_proxy=(config.proxy.no_proxy if config.proxy else None) or [],
            certificates=config.certificates,
            disk_key=parts.disk_key,
            topic_key=parts.topic_key,
            replace=config.may_replace,
            purge=config.may_purge,
            labels=parts.labels,
        )
        return GcpWorkerPool(name, args, parts.child)

    def _make_reconciler(self, name: str) -> GcpReconciler:
        args = GcpReconcilerArgs(
            bucket=self.parts.store.bucket,
            fleets=[pool.fleet for pool in self._pools.values()],
            log_bucket=self.parts.logs.bucket,
            labels=self.parts.labels,
        )
        return GcpReconciler(f"{name}-reconciler", args, self.parts.child)

    def _image(self, queue: Queue) -> pulumi.Input[str]:
        return self.parts.pulled(queue.images["default"])

    def described(self) -> dict[str, Any]:
        """The queues in the descriptor, by their names."""
        queues = self.queues
        return {key: described(queues[key], pool, self._image(queues[key])) for key, pool in self._pools.items()}

    def grant(self) -> None:
        """Let machines pull chunks, the reconciler keep the fleet, and submitters send chunks."""
        identity = self.parts.identity
        self.parts.store.grant_fleet(self._reconciler.member)
        for pool in self._pools.values():
            pool.grant_work(identity.worker)
            pool.grant_messages(self._reconciler.member)
            for member in identity.submitters:
                pool.grant_submit(member)

    def grant_send(self, member: Member, names: Collection[str]) -> None:
        for key in sorted(self._pools.keys() & set(names)):
            self._pools[key].grant_send(member)


QUEUES = PubsubQueues
