"""Rules of a queue that is a shelf."""

from components.config import Queue, StackConfig, part
from toy_service.platform.keys import ToyOptions


def check_queue(config: StackConfig, path: tuple[str, ...], queue: Queue) -> None:
    part(ToyOptions, queue.options, *path, "options")
