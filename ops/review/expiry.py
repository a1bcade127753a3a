"""Rules that delete a bucket's objects by age: what goes sooner after a change, in words."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ops.review.diffs import at
from ops.review.document import Step
from ops.review.models import Finding, Severity
from ops.review.values import is_unknown, number, objects, texts

_RULES = {
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": "rules",
    "aws:s3/bucketLifecycleConfigurationV2:BucketLifecycleConfigurationV2": "rules",
    "gcp:storage/bucket:Bucket": "lifecycleRules",
}


_SOON_DAYS = 30


class _Expiry(NamedTuple):
    """A deletion by a rule, whatever its place in the list."""

    what: str
    """In words."""
    scope: str
    """All its conditions but the age."""


def findings(step: Step) -> Iterator[Finding]:
    """Findings of the kind `state-expires` about objects that a bucket keeps for another time than before."""
    key = _RULES.get(step.type)
    if key is None or step.old.get(key) == step.new.get(key):
        return
    if is_unknown(step.new.get(key)):
        yield Finding("medium", "state-expires", step.name, step.urn, "deletion by age is known only after up")
        return
    old, new = (_expiries(step.type, objects(side.get(key))) for side in (step.old, step.new))
    for rule in sorted({*old, *new}):
        before, after = old.get(rule), new.get(rule)
        if before == after:
            continue
        sooner = after is not None and (before is None or after < before)
        title = f"deletes {rule.what} {'sooner' if sooner else 'later'}: kept {_days(after)}, was {_days(before)}"
        # Results are among the objects of a rule for all of a bucket.
        everything = rule.what == "objects" and after is not None and after < _SOON_DAYS
        severity: Severity = "low" if not sooner else "critical" if everything else "high"
        yield Finding(severity, "state-expires", step.name, step.urn, title)


def _days(days: float | None) -> str:
    return "for ever" if days is None else f"{days:g} day" if days == 1 else f"{days:g} days"


def _expiries(kind: str, rules: list[dict[str, Any]]) -> dict[_Expiry, float]:
    """The age in days at which each rule deletes; the smallest where several rules delete the same."""
    expiries: dict[_Expiry, float] = {}
    for rule in rules:
        for entry, days in _s3(rule) if kind.startswith("aws:") else _gcs(rule):
            age = number(days)
            if age is not None:
                expiries[entry] = min(age, expiries.get(entry, age))
    return expiries


def _s3(rule: dict[str, Any]) -> Iterator[tuple[_Expiry, Any]]:
    if rule.get("status", "Enabled") != "Enabled":
        return
    place = rule.get("filter") or {}
    place = place if isinstance(place, dict) else {"prefix": str(place)}
    scope = json.dumps(place, sort_keys=True)
    prefix = at(place, ("prefix",)) or at(place, ("and", "prefix"))
    which = f"objects below {prefix}" if prefix else "objects"
    yield _Expiry(which, scope), at(rule, ("expiration", "days"))
    yield _Expiry(f"overwritten {which}", scope), at(rule, ("noncurrentVersionExpiration", "noncurrentDays"))
    yield (
        _Expiry(f"unfinished uploads of {which}", scope),
        at(rule, ("abortIncompleteMultipartUpload", "daysAfterInitiation")),
    )


def _gcs(rule: dict[str, Any]) -> Iterator[tuple[_Expiry, Any]]:
    kind, condition = at(rule, ("action", "type")), rule.get("condition") or {}
    if not isinstance(condition, dict):
        return
    ages = {key: condition.get(key) for key in ("age", "daysSinceNoncurrentTime") if condition.get(key) is not None}
    # The provider's answers have null and empty keys that a program leaves out.
    others = {
        key: value for key, value in condition.items() if key not in ages and value not in (None, "", [], 0, False)
    }
    for prefix in texts(others.pop("matchesPrefixes", None)) or [""]:
        which = f"objects below {prefix}" if prefix else "objects"
        if kind == "AbortIncompleteMultipartUpload":
            which = f"unfinished uploads of {which}"
        elif kind != "Delete":
            continue
        if "daysSinceNoncurrentTime" in ages or others.get("withState") == "ARCHIVED":
            which = f"overwritten {which}"
        scope = json.dumps([kind, others], sort_keys=True)
        # All conditions of a rule must hold.
        numbers = [age for each in ages.values() if (age := number(each)) is not None]
        yield _Expiry(which, scope), max(numbers) if numbers else None if ages else 0
