"""Dry runs of a submit: `submit --dry-run`."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.client.estimate.estimate import JobEstimate, at_once, estimate_place
from tidemill.client.sending.check import check
from tidemill.client.sending.job_inputs import uploads
from tidemill.client.site import Site
from tidemill.request import JobRequest


@dataclass(frozen=True)
class JobPreview:
    """Preview of a submit; the document of `submit --dry-run --json`.

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
        estimate: Its expected time and cost; None where no time per item is given.
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


def preview(site: Site, request: JobRequest) -> JobPreview:
    """See `Pipeline.preview`."""
    checked = check(site, request)
    place, count, seconds = checked.place, checked.gathered.spool.count, request.item_seconds
    with uploads(site, checked.gathered, checked.inputs, checked.draft.timeout_seconds) as bringing:
        amount = bringing.amount
    low, high = at_once(site.descriptor.cloud, place)
    most = min(count, checked.draft.max_parallel or count)
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
        estimate=None if seconds is None else estimate_place(site, place, count, seconds),
    )
