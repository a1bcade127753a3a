"""From facts to an explanation: which causes hold, what they mean now, and which comes first.

The first cause that needs somebody is the headline. Without one, a job that commits is well, and otherwise the first
cause that holds explains the wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidemill.explain import aws, gcp, job
from tidemill.explain.answer import Explanation, Reason
from tidemill.explain.causes import BY_CODE
from tidemill.explain.facts import AwsFacts, Facts, GcpFacts
from tidemill.explain.found import Found
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


class Looks:
    """What earlier looks of the same loop have seen: a cause that stays does not pass."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}

    def note(self, codes: Sequence[str], now: float) -> None:
        """Remember the causes of a look; one that is gone begins anew."""
        self._first = {code: self._first.get(code, now) for code in codes}

    def lasts(self, code: str, now: float) -> bool:
        """Whether the looks have shown a cause for a minute."""
        return now - self._first.get(code, now) >= APART_SECONDS


def explain(facts: Facts, looks: Looks | None = None) -> Explanation:
    """What the facts mean."""
    looks = looks or Looks()
    found = list(_rules(facts))
    looks.note([each.code for each in found], facts.now)
    judged = [_judged(each, facts, looks) for each in found]
    moving = any(reason.code == "L10" for reason, _ in judged)
    judged.sort(key=lambda each: (_rank(*each, moving), BY_CODE[each[0].code][0]))
    causes = [reason for reason, _ in judged]
    unknown = [replace(each, reason=_plain(each.reason)) for each in facts.unseen]
    return Explanation(facts.job.job, causes[0].kind, causes, unknown)


def _rules(facts: Facts) -> Iterator[Found]:
    found = list(job.rules(facts))
    ended = facts.job.state in ("finished", "cancelled")
    if ended or facts.job.waits_for:
        pass
    elif isinstance(facts.cloud, AwsFacts):
        found += aws.rules(facts, facts.cloud)
    elif isinstance(facts.cloud, GcpFacts):
        found += gcp.rules(facts, facts.cloud)
    yield from found
    if not found:
        yield from job.nothing(facts)


def _judged(found: Found, facts: Facts, looks: Looks) -> tuple[Reason, bool]:
    """A cause in its class, and whether it may still pass."""
    _, cause = BY_CODE[found.code]
    kind = found.kind or cause.kind
    passes = kind in ("act", "never") and cause.passing and not found.sure and not _lasts(found.code, facts, looks)
    text = _plain(found.text)
    reason = Reason(
        code=found.code,
        kind="turn" if passes else kind,
        title=cause.title,
        text=f"{text} ({MAY_PASS})" if passes else text,
        since=found.since,
        evidence=[_plain(line) for line in found.evidence],
        do="" if passes else found.do or cause.do,
        owner=cause.owner if found.owner is None else found.owner,
        docs=cause.docs,
    )
    return reason, passes


def _plain(text: str) -> str:
    """One line that steers no terminal: clouds and programs write parts of it."""
    return " ".join(visible(text).split())


def _lasts(code: str, facts: Facts, looks: Looks) -> bool:
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
