"""Templates of a pipeline: submits that are kept, and sent again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.client.job import Job
from tidemill.client.journal import find_spec
from tidemill.client.keywords import KEYWORDS, check_keywords
from tidemill.client.site import Log, Site
from tidemill.clouds.account import ignore
from tidemill.request import JobRequest
from tidemill.templates.template import Template, find_template

if TYPE_CHECKING:
    from tidemill.client.templates.history import SendRow, TemplateRow


@dataclass(frozen=True)
class Templates:
    """The templates of a pipeline. See `Pipeline.templates`."""

    _site: Site

    def save(
        self,
        name: str,
        command: Sequence[str] | None = None,
        items: str | Path | Sequence[str] = (),
        **settings: Any,
    ) -> Template:
        """Keep a submit under a name. What is kept under it already stays as an earlier version.

        All that a submit checks is checked now. Code is uploaded; items and inputs are in a store.

        Args:
            name: Of the template and of its jobs: lower-case letters, digits and dashes.
            command: See `submit`, like `items`. Their texts may hold the time that a send is for: `{time:%Y/%m/%d}`, or
                `{time-1d:%Y/%m/%d}` for the day before. So may those of inputs, `output`, `env` and `tags`.
            items: None for a template that sends files as they arrive.
            settings: Others of `submit`, such as `queue`, `code` or `max_usd`.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do. Nothing was kept.

        Example:
            >>> command = ["python3", "features.py", "{uri}", "{output}"]
            >>> pipeline.templates.save("nightly", command, "s3://raw/{time:%Y/%m/%d}/**.jpg", queue="cpu").version
            2
        """
        from tidemill.client.templates.saving import save_template

        check_keywords("save", settings, KEYWORDS)
        return save_template(self._site, name, JobRequest(command, items, **settings))

    def send(
        self, name: str, at: str | datetime | None = None, *, schedule: str | None = None, log: Log = ignore
    ) -> Job:
        """Send a template. For one time of a schedule there is one job, whoever sends it and how often.

        Args:
            name: The template, or one of its versions, such as `nightly@3`.
            at: The day or time that it is for, in the zone of the schedule, else in UTC; None for now. On a day that a
                schedule is due, it means that time.
            schedule: Which of the stack's schedules is meant, where several send this template.
            log: Called with each remark, as a sentence.

        Raises:
            CallerError: There is no such template, or what it asks for is refused.
            CloudError: The store or the queue refused. The same call may be made again.

        Example:
            >>> pipeline.templates.send("nightly", "2026-11-23").spec.sent_by.version
            1
        """
        from tidemill.client.templates.by_hand import send_by_hand

        note = send_by_hand(self._site, name, at, schedule, log)
        return Job(self._site, find_spec(self._site.store, str(note.job)))

    def list(self) -> list[TemplateRow]:
        """Every template with its last send, in the order of their names.

        Example:
            >>> [row.name for row in pipeline.templates.list()]
            ['nightly']
        """
        from tidemill.client.templates.history import template_rows

        return template_rows(self._site)

    def find(self, name: str) -> Template:
        """The newest version of a template, or the one that is named, such as `nightly@3`.

        Raises:
            CallerError: There is none.

        Example:
            >>> pipeline.templates.find("nightly").settings["queue"]
            'cpu'
        """
        return find_template(self._site.store, name)

    def history(self, name: str, limit: int = 20) -> Sequence[SendRow]:
        """The newest sends of a template and their outcomes, the newest first, also of one that was removed.

        Raises:
            CallerError: There is no such template.

        Example:
            >>> job = pipeline.templates.send("nightly", "2026-11-23")
            >>> [(row.trigger, row.outcome) for row in pipeline.templates.history("nightly")]
            [('hand', 'sent')]
        """
        from tidemill.client.templates.history import send_rows

        return send_rows(self._site, name, limit)

    def remarks(self, name: str) -> Sequence[str]:
        """Reasons why a template is not sent, a sentence each: a pause, and that of its newest send if it made no job.

        Example:
            >>> pipeline.templates.remarks("nightly")
            ['Template nightly has never been sent. It is sent by hand.']
        """
        from tidemill.client.templates.history import send_remarks

        return send_remarks(self._site, name)

    def pause(self, name: str, reason: str = "") -> bool:
        """Let nothing be sent of a template but by hand; says whether it was not paused before.

        Raises:
            CallerError: There is no such template.

        Example:
            >>> pipeline.templates.pause("nightly", "the camera is broken")
            True
        """
        from tidemill.client.templates.by_hand import set_paused

        return set_paused(self._site, name, reason, paused=True)

    def resume(self, name: str) -> bool:
        """Let a template be sent again: files that have arrived meanwhile are, times that are over are not.

        Returns whether it was paused.

        Raises:
            CallerError: There is no such template.

        Example:
            >>> pipeline.templates.resume("nightly")
            False
        """
        from tidemill.client.templates.by_hand import set_paused

        return set_paused(self._site, name, "", paused=False)

    def remove(self, name: str) -> None:
        """Remove a template. Its jobs and its history stay.

        Raises:
            CallerError: There is no such template.

        Example:
            >>> pipeline.templates.remove("nightly")
        """
        from tidemill.client.templates.by_hand import remove_template

        remove_template(self._site, name)
