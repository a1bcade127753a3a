"""Time that passes only while everybody sleeps: hours of it take no time, and their order is the same in every run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

WAIT_SECONDS = 60


class VirtualTime:
    """The clock of threads of which one runs at a time: the one whose sleep ends first."""

    def __init__(self, now: float) -> None:
        self.now, self._turn = now, threading.Condition()
        self._wakes: dict[int, tuple[float, int]] = {}
        self._count, self._alive = 0, 0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        me = threading.get_ident()
        with self._turn:
            self._count += 1
            self._wakes[me] = (self.now + seconds, self._count)
            self._turn.notify_all()
            assert self._turn.wait_for(lambda: self._is_next(me), WAIT_SECONDS), "another thread never slept"
            self.now = max(self.now, self._wakes.pop(me)[0])

    def _is_next(self, me: int) -> bool:
        return len(self._wakes) == self._alive and min(self._wakes, key=lambda one: self._wakes[one]) == me

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Run functions side by side until each has returned, and raise what one of them raised."""
        errors: list[BaseException] = []
        self._alive = len(jobs)

        def run(job: Callable[[], None]) -> None:
            try:
                self.sleep(0.0)
                job()
            except BaseException as error:
                errors.append(error)
            with self._turn:
                self._alive -= 1
                self._turn.notify_all()

        threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_SECONDS)
        if errors:
            raise errors[0]
        assert not any(thread.is_alive() for thread in threads)
