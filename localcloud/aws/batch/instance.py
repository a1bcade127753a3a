"""An EC2 instance with an ECS agent, as EC2, ECS and Batch see it."""

from __future__ import annotations

import secrets
import time

from localcloud.aws.batch.environments import Environment
from localcloud.aws.batch.instance_types import InstanceType
from localcloud.aws.batch.jobs import Child


class Instance:
    """One instance.

    Attributes:
        free: The resources left for children.
        state: ``booting``, ``running`` (the agent has joined) or ``failed`` (localcloud could not create it).
        doomed: The machine has its Spot notice.
        retiring: Its environment is being replaced or deleted; it receives no more children.
        gone: The machine was taken away.
        ends_at: When Spot takes the machine, in seconds since the epoch.
        hinted_at: When EC2 recommended to leave it, likewise.
        config: The settings that its user data wrote to ecs.config.
    """

    def __init__(self, environment: Environment, kind: InstanceType) -> None:
        self.id = f"i-{secrets.token_hex(9)[:17]}"
        self.environment = environment
        self.type = kind
        self.free = kind.room
        self.spot = environment.resources["type"] == "SPOT"
        self.state = "booting"
        self.children: set[Child] = set()
        self.started = self.idle_since = time.monotonic()
        self.doomed = self.retiring = self.gone = False
        self.ends_at: float | None = None
        self.hinted_at: float | None = None
        self.config: dict[str, str] = {}
        self.tokens_required = True
        self.zone, self.role_arn = environment.region + "a", ""

    @property
    def arn(self) -> str:
        cluster = self.environment.detail["ecsClusterArn"].replace(":cluster/", ":container-instance/")
        return f"{cluster}/{self.id.removeprefix('i-')}"

    @property
    def accepts(self) -> bool:
        """Whether ECS may place a task. A Spot notice alone stops nothing; draining does, if it is configured:
        https://docs.aws.amazon.com/AmazonECS/latest/developerguide/container-instance-spot.html"""
        draining = self.config.get("ECS_ENABLE_SPOT_INSTANCE_DRAINING", "").lower() == "true"
        return self.state == "running" and not self.retiring and not self.gone and not (self.doomed and draining)

    def add(self, child: Child) -> None:
        self.children.add(child)
        self.free -= child.job.needs

    def remove(self, child: Child) -> None:
        self.children.discard(child)
        self.free += child.job.needs
        self.idle_since = time.monotonic()

    def join(self, state: str) -> None:
        """End booting: ``running`` or ``failed``."""
        self.state = state
        self.idle_since = time.monotonic()

    def give_notice(self, seconds: float) -> None:
        """Give Spot's notice; instance metadata shows it from now on."""
        self.doomed = True
        self.ends_at = time.time() + seconds

    def give_hint(self) -> None:
        """Recommend a rebalance; instance metadata shows it from now on. Nothing else changes."""
        self.hinted_at = time.time()
