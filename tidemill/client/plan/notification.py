"""Telling the end of a job from a client: the one that cancels it, or the next one that looks."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from tidemill.client.site import Log, Site
from tidemill.descriptor import NotifyTarget
from tidemill.ending.address import check_address
from tidemill.ending.gate import UntoldError, tell
from tidemill.ending.message import Message, message_of
from tidemill.errors import CallerError, CloudError
from tidemill.job import JobSpec
from tidemill.ledger import Listing

if TYPE_CHECKING:
    from tidemill.ending.webhook import Where

PATIENCE_SECONDS = 15.0
"""A receiver keeps a command no longer than this."""


def told_by(site: Site, given: str | None, log: Log) -> NotifyTarget | None:
    """Who is told of a new job's end, from what its submitter gave: a channel's name, or a webhook's address.

    Raises:
        CallerError: It is neither. An address is not in the error.
    """
    if given is None:
        return None
    channels = site.descriptor.channels
    if topic := channels.get(given):
        return NotifyTarget(to=given, topic=topic)
    if "://" in given:
        host = check_address(given, here=site.local)
        log(f"{host} is told when the job ends; everyone who may read the job store can read the address.")
        return NotifyTarget(to=host)
    names = f"a channel of this pipeline ({', '.join(sorted(channels)) or 'it has none'})"
    allowed = f"{names}, or the https address of a webhook"
    # An address without its scheme is a secret as well.
    value = given if given.replace("-", "").isalnum() and len(given) <= 32 else "not a name"
    fix = "The stack's owner declares channels under tidemill:monitoring.job_channels."
    raise CallerError.about("notify", value, allowed, fix)


def tell_end(site: Site, spec: JobSpec, listing: Listing, *, lost: bool = False) -> str | None:
    """Tell the end of a job unless that was done, and say what became of it; None where there is nothing to tell.
    Nothing that a receiver does is an error of the caller's."""
    message = message_of(spec, listing, lost=lost) if spec.notify else None
    if spec.notify is None or message is None:
        return None
    told = spec.notify
    words = [f"{told.to} is being told"]
    # A daemon: a receiver that hangs must not keep the process.
    thread = threading.Thread(target=lambda: words.append(_tell(site, told, message)), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    return words[-1]


def _tell(site: Site, told: NotifyTarget, message: Message) -> str:
    try:
        status = _gated(site, told, message)
    except (CallerError, CloudError) as error:
        status = error.problem
    if status == "sent":
        return f"{told.to} was told"
    return f"{told.to} is being told" if status == "sending" else f"{told.to} was not told: {status}"


def _gated(site: Site, told: NotifyTarget, message: Message) -> str:
    if told.topic is not None:
        return tell(site.store, message, "client", partial(_publish, site, told.topic))
    # Imported late: most jobs have none, and every command would wait for it.
    from tidemill.ending.webhook import Webhook

    hook = Webhook(site.store, _where(site))
    return tell(site.store, message, "client", hook.send, partial(hook.refusal, message.job))


def _where(site: Site) -> Where:
    return "here" if site.local else "person"


def _publish(site: Site, topic: str, message: Message) -> None:
    try:
        site.account.publish(topic, message.subject, message.text, message.fields)
    except (CallerError, CloudError) as error:
        raise UntoldError(error.problem) from None
