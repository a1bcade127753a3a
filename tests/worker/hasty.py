"""The ordinary worker, hasty: what takes minutes takes a moment. Only its intervals are changed."""

import runpy

from tidemill.services.pubsub.lease import holder, source
from tidemill.worker import cloud_log
from tidemill.worker.chunks import held_chunks


def apply() -> None:
    holder.EXTEND_SECONDS = 0.05
    holder.AGAIN_SECONDS = 0.05
    source.REFUSED_SECONDS = 0.5
    source.LONGEST_PAUSE = 0.1
    source.EMPTY_SECONDS = 0.05
    held_chunks.CANCEL_SECONDS = 0.1
    cloud_log.PAUSE_SECONDS = 0.05
    # What has its bounds is given more time here: the machine may be busy.
    cloud_log.CLOSE_SECONDS = source.CLOSE_SECONDS = 60.0


if __name__ == "__main__":
    apply()
    runpy.run_module("tidemill.worker", run_name="__main__")
