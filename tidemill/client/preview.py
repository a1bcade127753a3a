"""What a submit would do, without doing it: `submit --dry-run`."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.client.estimate import JobEstimate, Wanted, at_once, estimate
from tidemill.client.gather import uploads
from tidemill.client.site import Log, Site
from tidemill.client.submit import Submission, check


@dataclass(frozen=True)
class JobPreview:
    """What a submit would do; `submit --dry-run --json`.

    Attributes:
        queue: Where the job would run.
        image: Of the queue's images.
        items: Items of the job.
        chunks: Their chunks.
        chunk_size: Items of a chunk, where it is not one of the first or the last; the most where chunks differ.
        why: Why they are cut so, in words.
        upload_files: Files that would be sent. Those that were not read before may be in the store already.
        upload_bytes: Of these files together.
        uploaded_files: Further files, which are in the store already.
        output: Where its outputs would go; None for a folder of the job store that is named after the job.
        machines: Types that the queue may start for it.
        at_once_low: Items side by side with the queue at full capacity, on the machines that hold fewest.
        at_once_high: The same on the machines that hold most.
        estimate: What it would take and cost; None where no time per item is given.
    """

    queue: str
    image: str
    items: int
    chunks: int
    chunk_size: int
    why: str
    upload_files: int
    upload_bytes: int
    uploaded_files: int
    output: str | None
    machines: list[str]
    at_once_low: int
    at_once_high: int
    estimate: JobEstimate | None


def preview(site: Site, asked: Submission, log: Log) -> JobPreview:
    """See `Pipeline.preview`."""
    checked = check(site, asked, log)
    place, count = asked.place, checked.gathered.spool.count
    with uploads(site, checked.gathered, checked.inputs, checked.draft.timeout_seconds) as bringing:
        amount = bringing.amount
    low, high = at_once(site.descriptor.cloud, place)
    most = min(count, checked.draft.max_parallel or count)
    found = None
    if asked.item_seconds is not None:
        needs = place.resources.model_dump()
        found = estimate(
            site, Wanted(count, None, None, asked.item_seconds, None, place.queue_name, needs, place.slots)
        )
    return JobPreview(
        queue=place.queue_name,
        image=place.image,
        items=count,
        chunks=checked.plan.chunks,
        chunk_size=checked.plan.chunk_size,
        why=checked.plan.words(),
        upload_files=amount.files,
        upload_bytes=amount.bytes,
        uploaded_files=amount.there,
        output=checked.draft.output,
        machines=[machine.type for machine in place.queue.machines],
        at_once_low=min(low, most),
        at_once_high=min(high, most),
        estimate=found,
    )
