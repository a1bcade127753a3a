"""What a pipeline can say of a job before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.client.site import Site

if TYPE_CHECKING:
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
