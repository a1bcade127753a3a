"""The RUNNABLE children of a queue, in the order in which they will start."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from localcloud.aws.batch.jobs import Child


class Waiting:
    """The RUNNABLE children of one queue, by share identifier. They take turns; within one, first in is first out."""

    def __init__(self) -> None:
        self._shares: dict[str, deque[Child]] = {}

    def append(self, child: Child) -> None:
        self._shares.setdefault(child.job.share or "", deque()).append(child)

    def appendleft(self, child: Child) -> None:
        self._shares.setdefault(child.job.share or "", deque()).appendleft(child)

    def heads(self) -> list[tuple[str, Child]]:
        """Return the next child of each identifier, starting with the identifier whose turn it is."""
        heads = []
        for share, children in list(self._shares.items()):
            while children and children[0].status != "RUNNABLE":
                children.popleft()
            if children:
                heads.append((share, children[0]))
            else:
                del self._shares[share]
        return heads

    def take(self, share: str) -> None:
        """Remove the identifier's head, and move the identifier to the end of the round."""
        children = self._shares.pop(share)
        children.popleft()
        self._shares[share] = children

    def demand(self, limit: int) -> Iterator[Child]:
        """Yield up to ``limit`` waiting children, in round-robin order of their identifiers."""
        sources = [iter(children) for children in self._shares.values()]
        while sources and limit > 0:
            for source in list(sources):
                child = next((each for each in source if each.status == "RUNNABLE"), None)
                if child is None:
                    sources.remove(source)
                elif limit > 0:
                    limit -= 1
                    yield child
