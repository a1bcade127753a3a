"""Sending a template: once for each occasion, however often and by whomever it is tried."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from tidemill import layout
from tidemill.client.journal import newest_specs
from tidemill.client.sending.identity import sent_job
from tidemill.client.sending.submit import enqueued, submitted
from tidemill.client.site import Log, Site
from tidemill.client.templates.saving import KEPT, check_places
from tidemill.clouds.account import ignore
from tidemill.code import fetched
from tidemill.errors import CallerError, StoreMissingError
from tidemill.job import JobSpec, Predecessor, SentBy
from tidemill.ledger import Ledger
from tidemill.ledger.documents import TamperedError
from tidemill.ledger.gate import begun_at, look
from tidemill.ledger.start_limit import has_started, start_limit
from tidemill.request import JobRequest
from tidemill.templates.moments import with_time
from tidemill.templates.notes import FAILURES, NoteKind, SendNote, TriggerNotes, key_of
from tidemill.templates.template import Template, find_template, versions

Overlap = Literal["skip", "wait", "allow"]
_MOST_SEEN = 50
"""Jobs that wait for one another which one send looks at. One that waits for more is taken to go on."""
_TRIED: frozenset[str] = frozenset({"failed", "denied", "missed", "skipped"})


@dataclass(frozen=True)
class Send:
    """One use of a template.

    Attributes:
        reference: The template's name, or its name and version.
        trigger: `schedule NAME`, `arrivals NAME` or `hand`.
        time: The time that it is for, in the zone in which the template's texts are written.
        number: Of arrivals.
        cron: The schedule's cron text and zone.
        items: The items, where the template's own are not meant.
        queues: The queues that it may go to; None where those who send it may use any.
    """

    reference: str
    trigger: str
    time: datetime
    number: int | None = None
    cron: str = ""
    items: Iterable[str] | None = None
    queues: Sequence[str] | None = None

    @property
    def template(self) -> str:
        return self.reference.partition("@")[0]

    @property
    def key(self) -> str:
        return key_of(self.time) if self.number is None else layout.newest_first(self.number)

    def notes(self, site: Site) -> TriggerNotes:
        return TriggerNotes(site.store, self.template, self.trigger)

    def note(self, site: Site, outcome: NoteKind, version: int, reason: str = "", job: str | None = None) -> SendNote:
        """Write down what became of it; returns the note of this kind that stands. Arrivals are tried again after a
        failure: each failure of theirs has a note."""
        note = SendNote(
            template=self.template,
            version=version,
            trigger=self.trigger,
            time=self.time,
            outcome=outcome,
            by=site.account.user(),
            at=site.account.at(),
            reason=reason,
            job=job,
            number=self.number,
            cron=self.cron,
            mark=secrets.token_hex(8) if outcome == "begun" else "",
        )
        notes, again = self.notes(site), 0
        if self.number is not None and outcome in FAILURES:
            again = len(notes.find(self.key).failures)
        return notes.note(self.key, note, again)


def send(site: Site, wanted: Send, kinds: frozenset[str], overlap: Overlap = "allow", log: Log = ignore) -> SendNote:
    """Send a template for one occasion; returns the note of it.

    Args:
        site: The pipeline.
        wanted: The occasion.
        kinds: The kinds of its notes that are there.
        overlap: What happens while the template's previous job has not ended.
        log: Is told remarks.

    Raises:
        CallerError: The template is not there, or what it asks for is refused.
        NoItemsError: There are no items.
        CloudError: The store or the queue refused. The same call may be made again.
    """
    if "sent" in kinds:
        return wanted.notes(site).read(wanted.key, "sent")
    if written := written_job(site, wanted, kinds):
        job, version = enqueued(site, written), written.sent_by.version if written.sent_by else 0
        return wanted.note(site, "sent", version, job=job.id)
    template = find_template(site.store, wanted.reference)
    begun = wanted.note(site, "begun", template.version)
    # Two senders use the version of the first; after a try that ended another one may be right.
    if begun.version != template.version and not ("begun" in kinds and kinds & _TRIED):
        template = find_template(site.store, f"{template.name}@{begun.version}")
    _check_queue(site, wanted, template)
    sent_by = SentBy(
        template=template.name,
        version=template.version,
        trigger=wanted.trigger,
        time=wanted.time,
        number=wanted.number,
        saved_by=template.saved_by,
        mark=begun.mark,
    )
    after = list[str]()
    if overlap != "allow" and (previous := _unfinished(site, sent_by)):
        # A limit of the time until the start and jobs that come before do not go together.
        if overlap == "skip" or template.settings.get("start_within_seconds") is not None:
            return wanted.note(site, "skipped", template.version, f"{previous} has not ended")
        after.append(previous)
    request = request_of(site, template, wanted.time, log)
    request = replace(request, after=[*request.after, *after])
    if wanted.items is not None:
        request = replace(request, items=wanted.items)
    job = submitted(site, request, sent_by)[0]
    return wanted.note(site, "sent", template.version, job=job.id)


def written_job(site: Site, wanted: Send, kinds: frozenset[str]) -> JobSpec | None:
    """The job that a sender has written down before it died. It is sent whatever has become of the template since:
    nothing else finishes it."""
    numbers = versions(site.store, wanted.template) if "begun" in kinds else []
    if not numbers:
        return None
    marks = {"template": wanted.template, "version": numbers[-1], "trigger": wanted.trigger}
    mark = wanted.notes(site).read(wanted.key, "begun").mark
    return sent_job(site.store, SentBy(**marks, time=wanted.time, number=wanted.number, mark=mark)).spec


def _check_queue(site: Site, wanted: Send, template: Template) -> None:
    """Refuse a template of a queue that the stack does not let its sender submit to."""
    queue = template.settings.get("queue") or min(site.descriptor.queues, default="")
    if wanted.queues is not None and queue not in wanted.queues:
        raise CallerError.about(
            f"the queue of template {template.name}",
            queue,
            f"one that {wanted.trigger} sends to: {', '.join(wanted.queues)}",
            "Save it with another queue, or ask the stack's owner to add the queue under `queues`.",
        )


def _unfinished(site: Site, sent_by: SentBy) -> str | None:
    """The template's previous job, where it has not ended and may yet be complete."""
    if sent_job(site.store, sent_by).spec is not None:
        return None
    specs = newest_specs(site.store, sent_by.template, passed_over=ignore)
    previous = next((spec.job for spec in specs if _is_noted(site, spec)), None)
    if previous is None:
        return None
    return previous if _may_end(site, previous) else None


def _may_end(site: Site, job: str) -> bool:
    """True for a job that has not ended and may: it has not missed its start, and neither it nor one that it waits for
    is cancelled or gone. Whoever ends the others may look at them much later."""
    unseen, seen, first = [Predecessor(job=job)], set[str](), True
    while unseen and len(seen) < _MOST_SEEN:
        gate = look(site.store, [each := unseen.pop()])
        if gate.never or (first and gate.open):
            return False
        first = False
        seen.add(each.job)
        if gate.waits:
            spec = Ledger(site.store, each.job).spec()
            if _is_late(site, spec):
                return False
            waits = spec.after if begun_at(site.store, spec) is None else []
            unseen += [other for other in waits if other.job not in seen]
    return True


def _is_late(site: Site, spec: JobSpec) -> bool:
    """True for a job that ends when somebody looks, because it has not started in time."""
    if spec.start_within_seconds is None:
        return False
    ledger = Ledger(site.store, spec.job)
    limit = start_limit(spec, rounds[-1]) if (rounds := ledger.rounds()) else None
    return limit is not None and limit.until <= site.account.now() and not has_started(ledger)


def _is_noted(site: Site, spec: JobSpec) -> bool:
    """True if a note of a send names the job. A program of a job may write other specs, but no notes."""
    if (sent_by := spec.sent_by) is None or sent_by.template != spec.name:
        return False
    made = Send(sent_by.template, sent_by.trigger, sent_by.time, sent_by.number)
    try:
        return made.notes(site).read(made.key, "sent").job == spec.job
    except StoreMissingError:
        return False


def request_of(site: Site, template: Template, time: datetime, log: Log) -> JobRequest:
    """The request of a template for a time, whose zone is that of its texts.

    Raises:
        TamperedError: Its code is not what was saved.
        CallerError: A newer Tidemill has saved it, or it means files of the machine that sends it.
    """
    settings = with_time(template.settings, time)
    if unknown := sorted(settings.keys() - KEPT):
        raise CallerError(
            f"Template {template.name}@{template.version} has settings that this Tidemill does not know: "
            f"{', '.join(unknown)}.",
            "Update it; a stack's own sender is updated by `pulumi up`.",
            what="template",
        )
    check_places(site, settings)
    code = None
    if template.code:
        name = layout.template_code(template.name, template.code)
        code = fetched(site.store, name, template.code_origin)
        if code.sha256 != template.code:
            raise TamperedError(f"{site.store.uri_of(name)} is not what was saved: its SHA-256 differs.")
    whole: dict[str, Any] = {"command": None, "items": (), **settings}
    return JobRequest(**whole, name=template.name, code=code, log=log)
