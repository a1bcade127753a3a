"""The sender: sends a stack's templates when a scheduler wakes it up, without a person.

It runs in the cloud, starts from nothing, and keeps nothing: what it has done is in the job store. Each call may be
repeated, be late, and run beside another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tidemill import clouds
from tidemill.client.site import Site, read_site
from tidemill.clouds.events import ArrivalEvents
from tidemill.errors import CallerError

_FORM = '{"schedule": NAME, "time": TIME} or {"arrivals": true}'


def handle(descriptor_uri: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a scheduler asks for.

    Args:
        descriptor_uri: URI of the pipeline's `pipeline.json`.
        event: `{"schedule": "nightly", "time": "2026-11-23T01:00:00Z"}` when a schedule is due, with the time that it
            is due at; `{"arrivals": true}` to look for files that have arrived.

    Returns:
        What was sent and what was not, for the log.

    Raises:
        CallerError: The event is none of these.
        CloudError: The store or the queue did not answer. The same call may be made again.
    """
    return answer(read_site(descriptor_uri), event)


def answer(
    site: Site, event: Mapping[str, Any], open_events: Callable[..., ArrivalEvents] | None = None
) -> dict[str, Any]:
    """The same for a pipeline that is open; `open_events` is not the cloud's in tests."""
    if isinstance(name := event.get("schedule"), str):
        from tidemill.sender.schedules import send_due

        schedule = site.descriptor.schedules.get(name)
        if schedule is None:
            # The stack has removed it while its scheduler was on its way.
            return {"schedule": name, "sends": [], "reason": "the stack has no such schedule"}
        return {"schedule": name, "sends": send_due(site, name, schedule, _time(event.get("time")))}
    if event.get("arrivals") is True:
        return {"arrivals": _look(site, open_events)}
    raise CallerError.about("event", dict(event), _FORM, "Update the stack: `pulumi up`.")


def _look(site: Site, open_events: Callable[..., ArrivalEvents] | None) -> list[dict[str, Any]]:
    """Look at all arrivals of a stack. One that fails does not hold the others up: people write templates and notes."""
    from tidemill.sender.arrivals import ArrivalSender

    open_one = open_events or _of_cloud(site)
    answers, errors = list[dict[str, Any]](), list[Exception]()
    for name, arrival in site.descriptor.arrivals.items():
        try:
            if arrival.queue:
                answers.append(ArrivalSender(site, name, arrival, open_one(site.descriptor, arrival.queue)).look())
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return answers


def _of_cloud(site: Site) -> Callable[..., ArrivalEvents]:
    cloud = clouds.find(site.descriptor.cloud)
    assert cloud
    return cloud.part("events").open_events


def _time(text: object) -> datetime:
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        allowed = "a time with its zone, such as 2026-11-23T01:00:00Z"
        raise CallerError.about("time", text, allowed, "Update the stack: `pulumi up`.")
    return time
