"""What a pipeline can say of a job, and of machines for it, before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tidemill.client.site import Site

if TYPE_CHECKING:
    from tidemill.advice.model import ShapeAdvice
    from tidemill.client.estimate import Items, JobEstimate


class Estimator:
    """The part of a `Pipeline` that estimates."""

    site: Site

    def estimate(
        self,
        items: Items | None = None,
        *,
        items_format: str | None = None,
        items_column: str | None = None,
        item_seconds: float | None = None,
        like: str | None = None,
        queue: str | None = None,
        cpus: float | None = None,
        memory_mib: int | None = None,
        gpus: int | None = None,
        slots: int | None = None,
    ) -> JobEstimate:
        """What a job would take and cost: core hours, wall time at the queue's capacity, USD on Spot and On-Demand.

        Prices are those of the table in this package, of the date that it says. Nothing is written.

        Args:
            items: How many, or the items as `submit` takes them; None for as many as `like` has.
            items_format: See `submit`, like `items_column`, `cpus`, `memory_mib` and `gpus`.
            items_column: See `submit`.
            item_seconds: How long an item takes in its slot; None to learn it from `like`.
            like: Id or name of a job whose items took as long, on the same queue and size unless stated here.
            queue: One of the pipeline's queues; may be left out when there is only one.
            cpus: See `submit`.
            memory_mib: See `submit`.
            gpus: See `submit`.
            slots: AWS: items that run side by side in one container.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do.

        Example:
            >>> pipeline.estimate(250_000, item_seconds=7.2 * 60, queue="cpu").core_hours
            30000.0
        """
        from tidemill.client.estimate import Wanted, estimate

        needs = {"cpus": cpus, "memory_mib": memory_mib, "gpus": gpus}
        wanted = Wanted(items, items_format, items_column, item_seconds, like, queue, needs, slots)
        return estimate(self.site, wanted)

    def advise(
        self,
        *,
        cpus: int = 0,
        memory_mib: int = 0,
        gpus: int = 0,
        gpu_memory_gb: float = 0.0,
        arch: Literal["x86_64", "arm64"] | None = None,
        families: Sequence[str] = (),
        regions: Sequence[str] = (),
        queue: str | None = None,
        like: str | None = None,
        hours: float = 1.0,
        one_zone: bool = False,
        limit: int = 20,
        live: bool | None = None,
    ) -> ShapeAdvice:
        """Machines for a piece of work, the cheapest for the work first, each figure with its date and source.

        Nothing is started. docs/advice.md says what the figures rest on.

        Args:
            cpus: vCPUs of all machines together, like `memory_mib` and `gpus`.
            memory_mib: Memory as the cloud states it.
            gpus: NVIDIA GPUs, exactly as many.
            gpu_memory_gb: Memory of each GPU at least, in GB of 10⁹ bytes.
            arch: Processors; None for any.
            families: Only these families of machines, such as `g5`; empty for all.
            regions: Regions of one or both clouds; empty for the pipeline's.
            queue: One of the pipeline's queues: its own machines, in place of all those above.
            like: Id or name of a job: the speed of machines is what jobs of its name have shown.
            hours: How long the work takes.
            one_zone: Compare zones: all machines are in one.
            limit: How many shapes.
            live: Ask the clouds of all regions (True), none (False), or the pipeline's (None).

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do.

        Example:
            >>> advice = pipeline.advise(gpus=4, gpu_memory_gb=24, families=["g5"], live=False)
            >>> advice.shapes[0].count, advice.shapes[0].market
            (4, 'spot')
        """
        from tidemill.advice.shapes import Need
        from tidemill.client.advise import AdviceWanted, advise

        need = Need(cpus, memory_mib, gpus, gpu_memory_gb, arch, tuple(families))
        wanted = AdviceWanted(need, tuple(regions), queue, like, hours, one_zone=one_zone, limit=limit, live=live)
        return advise(wanted, self.site)
