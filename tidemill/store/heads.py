"""The beginnings of many objects, in bounded memory: half a million items' records are read by their first lines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import obstore

from tidemill.errors import StoreMissingError
from tidemill.store.errors import as_exception
from tidemill.store.store import Store

AT_ONCE = 128
"""Requests in flight. More do not help: at 80 ms they take a core's time."""


def read_heads(store: Store, names: Sequence[str], length: int, take: Callable[[int, bytes], None]) -> None:
    """Call `take` with the position and the first bytes of each object, in any order but never twice at the same time.

    Args:
        store: Where they are.
        names: The objects. One that is gone meanwhile is left out.
        length: How many bytes are wanted; a shorter object comes whole.
        take: Called in another thread. What it raises ends the reading.

    Raises:
        StoreError: An object cannot be read, within the bounds of `Store.get_range`.
    """
    # Workers import this package and read no heads: asyncio costs 40 ms and 8 MB.
    import asyncio

    failed: list[BaseException] = []
    left: Iterator[tuple[int, str]] = iter(enumerate(names))

    async def one(position: int, name: str) -> None:
        try:
            data = bytes(await obstore.get_range_async(store._backend, name, start=0, length=length))
        except Exception:  # a second time with all that the store knows of repeats and errors
            try:
                data = await asyncio.to_thread(store.get_range, name, 0, length)
            except StoreMissingError:
                return
        take(position, data)

    async def some() -> None:
        for position, name in left:
            await one(position, name)

    async def everything() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(names))):
                group.create_task(some())

    def run() -> None:
        try:
            asyncio.run(everything())
        except BaseExceptionGroup as group:
            failed.append(group.exceptions[0])
        except BaseException as error:
            failed.append(as_exception(error))

    # A notebook has a loop of its own in this thread.
    thread = threading.Thread(target=run, name="heads", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
