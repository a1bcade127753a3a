"""Arrivals: objects that have come into a bucket, sent as jobs when no more come.

Events go from the queue into the log of the template (`tidemill.templates.arrival_log`) before they are forgotten. Each
step may end in between: the next sender goes on, and no object is taken twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import regex

from tidemill import layout
from tidemill.client.items.fetch_rules import names_object
from tidemill.client.items.folders import WILD, translate
from tidemill.client.items.spool import encodable
from tidemill.client.site import Site
from tidemill.client.templates.sends import Send
from tidemill.client.upload.versions import number_of
from tidemill.clouds.events import ArrivalEvents, EventBatch
from tidemill.descriptor import Arrival
from tidemill.errors import CallerError
from tidemill.sender.trying import row, tried
from tidemill.templates.arrival_log import ArrivalEntry, ArrivalLog, Arrived, LogEnd, TakenPages
from tidemill.templates.moments import with_time
from tidemill.templates.notes import end_of
from tidemill.templates.pauses import paused
from tidemill.templates.template import find_template

PAGE_OBJECTS = 10_000
DRAIN_SECONDS = 240.0
"""A sender that is called every minute reads events no longer than this."""
PAGE_SECONDS = 20.0
"""Events are in the log after so long: a queue delivers them again when they are not forgotten."""
LONGEST_WAIT = timedelta(hours=1)
"""Objects that have waited so long are sent, even if more come without a pause."""
MATCH_SECONDS = 60.0
"""A pattern that takes longer for all names together is refused: it would take the time of all other arrivals."""
_HOUR = timedelta(hours=1)


@dataclass
class ArrivalSender:
    """The sender of one of a stack's arrivals.

    Attributes:
        site: The pipeline.
        name: The name of the arrivals.
        arrival: What the stack says of them.
        events: Their queue.
    """

    site: Site
    name: str
    arrival: Arrival
    events: ArrivalEvents

    def __post_init__(self) -> None:
        self._trigger = f"arrivals {self.name}"
        bucket_alone = "/" not in self.arrival.prefix.partition("://")[2]
        self._prefix = f"{self.arrival.prefix}/" if bucket_alone else self.arrival.prefix
        self._template = self.arrival.template_name
        self._log = ArrivalLog(self.site.store, self._template, self._trigger)

    def look(self) -> dict[str, Any]:
        """Note what has arrived, and send it when it is due.

        Raises:
            CloudError: The store or a queue did not answer. The same call may be made again.
        """
        arrived = self._drain()
        while True:
            end, now = self._log.end(self._held), self.site.account.at()
            if end.held:
                return self._answer(arrived, {"waits": end.held})
            if end.send and not end_of(end.kinds - {"failed", "denied"}):
                return self._answer(arrived, self._finish(end, end.number, end.send))
            why = self._not_due(end, now)
            if why:
                return self._answer(arrived, {"waits": why})
            taken = self._taken(end, now)
            # Another sender may have written the next entry: then all is looked at again.
            if self._log.append(end.last + 1, ArrivalEntry(send=taken, at=now)):
                return self._answer(arrived, self._finish(end, end.last + 1, taken))

    def _answer(self, arrived: int, more: dict[str, Any]) -> dict[str, Any]:
        return {"arrivals": self.name, "arrived": arrived, **more}

    # ---- events -------------------------------------------------------------------------------------------------

    def _drain(self) -> int:
        """Move events from the queue into the log; returns how many objects they tell of."""
        begun, total = time.monotonic(), 0
        while time.monotonic() - begun < DRAIN_SECONDS:
            batches, objects, opened = list[EventBatch](), list[Arrived](), time.monotonic()
            while len(objects) < PAGE_OBJECTS and time.monotonic() - opened < PAGE_SECONDS:
                batch = self.events.take()
                if not batch.receipts:
                    break
                batches.append(batch)
                objects += [(each.uri, each.tag, each.at) for each in batch.objects if self._is_meant(each.uri)]
            if objects:
                self._append(objects)
            for batch in batches:
                self.events.forget(batch)
            total += len(objects)
            if not batches:
                break
        return total

    def _is_meant(self, uri: str) -> bool:
        return uri.startswith(self._prefix) and not uri.endswith("/") and encodable(uri)

    def _append(self, objects: Sequence[Arrived]) -> None:
        entry, number = ArrivalEntry(page=list(objects), at=self.site.account.at()), self._log.last() + 1
        while not self._log.append(number, entry):
            number += 1

    # ---- sends --------------------------------------------------------------------------------------------------

    def _not_due(self, end: LogEnd, now: datetime) -> str:
        """Why nothing is sent now; empty where something is due."""
        if not end.pages:
            return "nothing has arrived"
        oldest, newest = now, 0.0
        for number in end.pages:
            page = self._log.entry(number)
            oldest = min(oldest, page.at)
            newest = max(newest, *(min(at, page.at.timestamp()) for _, _, at in page.page or ()))
        waited = now - oldest
        settle = timedelta(minutes=self.arrival.settle_minutes)
        if now.timestamp() - newest < settle.total_seconds() and waited < max(LONGEST_WAIT, settle):
            return "objects are arriving"
        if len(self._recent(end, now)) >= self.arrival.most_per_hour:
            return f"{self.arrival.most_per_hour} jobs were sent within an hour"
        return ""

    def _held(self) -> str:
        """Why nothing is sent whatever has arrived; empty where it may be."""
        pause = paused(self.site.store, self._template)
        return f"the template is {pause.words()}" if pause else ""

    def _recent(self, end: LogEnd, now: datetime) -> list[datetime]:
        """When the sends of the last hour were."""
        times = [*end.send.earlier, end.send.at] if end.send else []
        return [at for at in times if now - at < _HOUR]

    def _taken(self, end: LogEnd, now: datetime) -> TakenPages:
        before = end.send.seen if end.send else None
        seen, keys = self._log.seen(before), set[int]()
        count = sum(1 for _ in self._unseen(end.pages, before, keys))
        seen.add(keys, now.timestamp())
        return TakenPages(
            first=end.pages[0],
            objects=count,
            at=now,
            earlier=self._recent(end, now),
            seen_before=before,
            seen=self._log.keep_seen(seen),
        )

    def _unseen(self, pages: Sequence[int], before: str | None, keys: set[int]) -> Iterator[str]:
        """URIs of objects that no earlier send has taken, each once; puts their hashes into `keys`."""
        seen, names = self._log.seen(before), set[int]()
        for uri, tag, _ in self._log.objects(pages):
            key, name = number_of(f"{uri} {tag}"), number_of(uri)
            if key in keys or key in seen:
                continue
            keys.add(key)
            if name not in names:
                names.add(name)
                yield uri

    def _finish(self, end: LogEnd, number: int, taken: TakenPages) -> dict[str, Any]:
        """Send what an entry of the log has taken; a sender before may have died on the way."""
        kinds = end.kinds if number == end.number else frozenset[str]()
        if reason := self._held():
            return {"waits": reason}
        uris = self._unseen(range(taken.first, number), taken.seen_before, set())
        # One that no machine can fetch would have all of them refused, and whoever writes an object chooses its name.
        items = filter(names_object, self._matching(uris, taken.at))
        wanted = Send(self.arrival.template, self._trigger, taken.at, number, items=items, queues=self.arrival.queues)
        if not taken.objects:
            return {"send": row(wanted.note(self.site, "skipped", 0, "All objects were sent before."))}
        return {"send": row(tried(self.site, wanted, kinds))}

    def _matching(self, uris: Iterator[str], at: datetime) -> Iterator[str]:
        """The objects that the template's own pattern means, where it has one.

        Raises:
            CallerError: The jobs of the template write where its objects arrive.
        """
        settings = with_time(find_template(self.site.store, self.arrival.template).settings, at)
        output = f"{settings.get('output') or f'{self.site.store.uri}/{layout.OUT}'}/"
        if output.startswith(self._prefix) or self._prefix.startswith(output):
            raise CallerError.about(
                "output", output, f"outside {self._prefix}, where its objects arrive", "Save it with another."
            )
        pattern = settings.get("items")
        if not isinstance(pattern, str) or not WILD.search(pattern):
            yield from uris
            return
        yield from _meant(pattern, uris)


def _meant(pattern: str, uris: Iterator[str]) -> Iterator[str]:
    """The names that a pattern means.

    Raises:
        CallerError: It takes too long, as with many `*` one after the other.
    """
    expression, left = regex.compile(translate(pattern)), MATCH_SECONDS
    for uri in uris:
        begun = time.monotonic()
        try:
            meant = expression.fullmatch(uri, timeout=max(left, 0.001))
        except TimeoutError:
            allowed = f"a pattern that all names are compared with in {MATCH_SECONDS:g} seconds"
            raise CallerError.about("items", pattern, allowed, "Save the template with fewer `*`.") from None
        left -= time.monotonic() - begun
        if meant:
            yield uri
