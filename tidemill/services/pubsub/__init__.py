"""Pub/Sub: a message per chunk, pulled by an instance group of machines that a reconciler keeps."""

from tidemill.services import Service

SERVICE = Service(
    name="pubsub",
    title="Pub/Sub",
    package=__name__,
    clouds=frozenset({"gcp"}),
    slots="machine",
    overflow=False,
    # The kernel describes each page of 4 KiB in 64 bytes, 1.6 %; Container-Optimized OS and the worker, which
    # has 96 MiB, take the rest.
    # Source: https://docs.kernel.org/mm/vmemmap_dedup.html
    kept_back=(2, 350),
    # Source: https://cloud.google.com/compute/docs/instances/spot#preemption-process
    notice_seconds=30.0,
    reconciled=True,
    # A publish request has at most 1,000 messages and 10 MB: https://cloud.google.com/pubsub/quotas
    array_chunks=1000,
    sees_children=False,
)
