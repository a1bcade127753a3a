"""Judges facts: finds the causes that hold, classifies and orders them.

The first cause that needs somebody is the headline. Without one, a job that commits is well, and otherwise the first
cause that holds explains the wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemill.explain import job
from tidemill.explain.answer import Explanation, Reason
from tidemill.explain.cause_finding import CauseFinding
from tidemill.explain.causes import BY_CODE, Cause
from tidemill.explain.facts import Facts
from tidemill.visible import visible

USUAL_SECONDS = 300.0
"""How long machines may take to come: 2 to 5 minutes from zero on AWS, the metric's age and a boot on GCP. Before that
a reason that may pass does not count."""
LASTING_SECONDS = 600.0
"""How long nothing may have been committed or started before a reason that may pass counts. AWS Batch detects a blocked
queue within about ten minutes, and shows reasons that pass while it scales from zero
(https://github.com/nextflow-io/nextflow/issues/7479)."""
APART_SECONDS = 60.0
"""Two looks that are this far apart and show the same reason are enough, too."""
MAY_PASS = "seen now, it may pass"


class CauseHistory:
    """Causes seen by earlier looks of the same loop: a cause that stays does not pass."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}

    def note(self, codes: Sequence[str], now: float) -> None:
        """Remember the causes of a look; one that is gone begins anew."""
        self._first = {code: self._first.get(code, now) for code in codes}

    def lasts(self, code: str, now: float) -> bool:
        """True if the looks have shown a cause for a minute."""
        return now - self._first.get(code, now) >= APART_SECONDS


def explain(facts: Facts, looks: CauseHistory | None = None) -> Explanation:
    """Explain the facts."""
    looks = looks or CauseHistory()
    findings = list(_rules(facts))
    looks.note([each.code for each in findings], facts.now)
    table = _table(facts)
    judged = [_judged(each, table[each.code][1], facts, looks) for each in findings]
    moving = any(reason.code == "L10" for reason, _ in judged)
    judged.sort(key=lambda each: (_rank(*each, moving), table[each[0].code][0]))
    causes = [reason for reason, _ in judged]
    unknown = [replace(each, reason=_plain(each.reason)) for each in facts.unseen]
    return Explanation(facts.job.job, causes[0].kind, causes, unknown)


def _rules(facts: Facts) -> Iterator[CauseFinding]:
    findings = list(job.rules(facts))
    ended = facts.job.state in ("finished", "cancelled")
    if ended or facts.job.waits_for:
        pass
    elif facts.cloud:
        findings += facts.cloud.service.part("rules").rules(facts, facts.cloud)
    yield from findings
    if not findings:
        yield from job.nothing(facts)


def _table(facts: Facts) -> dict[str, tuple[int, Cause]]:
    """All causes with their order: after ours those that a service of another package has in its `rules`."""
    own = getattr(facts.cloud.service.part("rules"), "CAUSES", ()) if facts.cloud else ()
    return BY_CODE | {cause.code: (order, cause) for order, cause in enumerate(own, start=len(BY_CODE))}


def _judged(finding: CauseFinding, cause: Cause, facts: Facts, looks: CauseHistory) -> tuple[Reason, bool]:
    """A cause in its class, and whether it may still pass."""
    kind = finding.kind or cause.kind
    passes = kind in ("act", "never") and cause.passing and not finding.sure and not _lasts(finding.code, facts, looks)
    text = _plain(finding.text)
    reason = Reason(
        code=finding.code,
        kind="turn" if passes else kind,
        title=cause.title,
        text=f"{text} ({MAY_PASS})" if passes else text,
        since=finding.since,
        evidence=[_plain(line) for line in finding.evidence],
        do="" if passes else finding.do or cause.do,
        owner=cause.owner if finding.owner is None else finding.owner,
        docs=cause.docs,
    )
    return reason, passes


def _plain(text: str) -> str:
    """One line that steers no terminal: clouds and programs write parts of it."""
    return " ".join(visible(text).split())


def _lasts(code: str, facts: Facts, looks: CauseHistory) -> bool:
    if facts.now - facts.job.began < USUAL_SECONDS:
        return False
    still = facts.job.active == 0 and facts.now - facts.job.idle_since >= LASTING_SECONDS
    return still or looks.lasts(code, facts.now)


def _rank(reason: Reason, passes: bool, moving: bool) -> int:
    if reason.kind in ("act", "never"):
        return 0
    if passes:
        return 3
    return 1 if (reason.kind == "well") is moving else 2
