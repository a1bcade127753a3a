"""Shelves of a pipeline."""

from typing import Any

from components.describe import queue_block
from components.services.queues import ServiceQueues
from toy_service.platform.keys import types


class ToyQueues(ServiceQueues):
    """Nothing is made: shelves are folders of the job store."""

    def described(self) -> dict[str, Any]:
        return {
            name: {
                **queue_block(queue, {image: {"ref": ref} for image, ref in queue.images.items()}, types(queue)),
                "place": queue.options,
            }
            for name, queue in self.queues.items()
        }


QUEUES = ToyQueues
