"""A review as Markdown for a pull request: most dangerous first, within GitHub's limit.

What does not fit is dropped in steps, least important first: single properties, then rows of single resources, then
findings of low, medium and high severity. The comment says what was left out and where to find it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ops.review import money
from ops.review.escape import block, code, html_code, words
from ops.review.models import SEVERITIES, Change, Finding, Review, Severity, StackReview

LIMIT = 65_400
"""Bytes. GitHub accepts 65,536 characters, including the mark by which the comment is found again."""


_HEAD = ("| severity | stack | resource | what |", "|---|---|---|---|")


@dataclass(frozen=True)
class Detail:
    """How much detail to show."""

    properties: bool = True
    rows: int | None = None
    """Most rows per stack for changes; the rest is counted by type."""
    created: bool = True
    """Whether new resources are named instead of counted."""
    names: int = 100
    """Most resource names per finding; ten times as many for critical ones."""
    lines: int = 40
    """Most lines per finding."""
    low: int | None = None
    medium: int | None = None
    high: int | None = None
    critical: int | None = None
    stacks: int | None = None

    @property
    def fleets(self) -> int | None:
        return None if self.rows is None else max(self.rows, 20)

    def most(self, severity: Severity) -> int | None:
        """Rows for findings of a severity; None for all."""
        return getattr(self, severity)


_STEPS = (
    Detail(),
    Detail(lines=20, properties=False),
    Detail(lines=10, properties=False, created=False),
    Detail(lines=10, properties=False, created=False, rows=400, names=50, low=100),
    Detail(lines=10, properties=False, created=False, rows=100, names=50, low=30),
    Detail(lines=10, properties=False, created=False, rows=0, names=30, low=30),
    Detail(lines=5, properties=False, created=False, rows=0, names=10, low=0, medium=100),
    Detail(lines=2, properties=False, created=False, rows=0, names=8, low=0, medium=20, stacks=300),
    Detail(lines=0, properties=False, created=False, rows=0, names=4, low=0, medium=0, high=200, stacks=100),
    Detail(lines=0, properties=False, created=False, rows=0, names=1, low=0, medium=0, high=0, critical=300, stacks=50),
)


def render(review: Review, limit: int = LIMIT) -> str:
    """Write a review as Markdown of at most `limit` bytes in UTF-8.

    Args:
        limit: At least 2,000.
    """
    text, detail = "", _STEPS[0]
    for detail in _STEPS:
        text = _text(review, detail)
        if len(text.encode()) <= limit:
            return text
    while len(text.encode()) > limit and (detail.critical or detail.stacks):
        detail = replace(detail, critical=(detail.critical or 0) // 2, stacks=(detail.stacks or 0) // 2)
        text = _text(review, detail)
    return text


def _text(review: Review, detail: Detail) -> str:
    stacks = review.stacks if detail.stacks is None else review.stacks[: detail.stacks]
    lines = [f"## Tidemill: {_headline(review)}", ""]
    lines += _compared(stacks)
    lines += _errors(stacks, detail)
    for title, severities in (("Dangerous", SEVERITIES[:2]), ("Worth a look", SEVERITIES[2:3])):
        rows = _findings(review, severities, detail)
        lines += [f"### {title}", "", *rows, ""] if rows else []
    lines += _section("Capacity and money", list(money.tables(stacks, detail.fleets)))
    lines += _section("Changes", list(_counts(stacks)) if stacks else [])
    if len(review.stacks) > len(stacks):
        lines += [f"and {len(review.stacks) - len(stacks)} more stacks.", ""]
    for stack in stacks:
        lines += _stack(stack, detail)
    if left := _left_out(review, detail):
        lines += [f"Left out, because a comment has no room: {left}. `ops review --json` has everything.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"### {title}", "", *lines, ""] if lines else []


def _headline(review: Review) -> str:
    if not review.stacks and not review.guardrails:
        return "this change affects no stack"
    counted = [(severity, len(_of(review, severity))) for severity in SEVERITIES]
    told = ", ".join(f"{count} {severity}" for severity, count in counted if count and severity != "low")
    changes = sum(len(stack.changes) for stack in review.stacks)
    failed = sum(stack.failed for stack in review.stacks)
    begun = f"{failed} of {len(review.stacks)} previews failed; " if failed else ""
    if failed and len(review.stacks) == 1:
        begun = "the preview failed; "
    new = [stack for stack in review.stacks if stack.first]
    if not review.stacks:
        return f"{told or 'nothing dangerous'}; this change affects no stack"
    if new and len(new) == len(review.stacks):
        return f"{begun}{f'{told}, ' if told else ''}{_first(new)}"
    if not changes and not told:
        return f"{begun}nothing changes"
    changing = "1 resource changes" if changes == 1 else f"{changes or 'no'} resources change"
    return f"{begun}{told or 'nothing dangerous'}, {changing}{f'; {_first(new)}' if new else ''}"


def _first(new: Sequence[StackReview]) -> str:
    """If everything is new, no change is dangerous by itself, but that is not a verdict."""
    resources = sum(len(stack.changes) for stack in new)
    of = "first deployment" if len(new) == 1 else f"{len(new)} first deployments"
    return f"{of} of {resources} resources; nothing to compare with"


def _compared(stacks: Sequence[StackReview]) -> list[str]:
    """One line per base commit, and one for the stacks that it does not have."""
    told = {(stack.base, stack.first): [s.stack for s in stacks if (s.base, s.first) == (stack.base, stack.first)]
            for stack in stacks if stack.base}  # fmt: skip
    lines = [
        f"{_names(names, 100)}: {'not in' if first else 'compared with'} {code(base or '')}."
        for (base, first), names in sorted(told.items(), key=str)
    ]
    return [line for each in lines for line in (each, "")]


def _of(review: Review, severity: Severity) -> list[tuple[str, Finding]]:
    """Findings of a severity, each with its stack's name; those about guardrails, which have none, come first."""
    rows = [("", finding) for finding in review.guardrails]
    rows += [(stack.stack, finding) for stack in review.stacks for finding in stack.findings]
    return [(stack, finding) for stack, finding in rows if finding.severity == severity]


def _errors(stacks: Iterable[StackReview], detail: Detail) -> Iterator[str]:
    for stack in stacks:
        if not stack.failed:
            continue
        yield f"**The preview of {code(stack.stack)} failed.** What follows may be incomplete."
        yield ""
        for error in stack.errors[:5]:
            yield block(error, most_lines=max(5, detail.lines))
            yield ""


def _findings(review: Review, severities: Iterable[Severity], detail: Detail) -> list[str]:
    rows = [row for severity in severities for row in _of_severity(severity, _of(review, severity), detail)]
    return [*_HEAD, *rows] if rows else []


def _of_severity(severity: Severity, rows: list[tuple[str, Finding]], detail: Detail) -> Iterator[str]:
    grouped = _groups(rows)
    kept = grouped[: detail.most(severity)]
    for group in kept:
        yield _finding(severity, group, detail)
    if len(kept) < len(grouped):
        yield f"| {severity} | | | and {len(grouped) - len(kept)} more |"


def _groups(findings: Iterable[tuple[str, Finding]]) -> list[list[tuple[str, Finding]]]:
    """Combine findings that say the same about several resources or stacks."""
    rows: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for stack, finding in findings:
        rows.setdefault((finding.kind, finding.title), []).append((stack, finding))
    return list(rows.values())


def _finding(severity: Severity, group: list[tuple[str, Finding]], detail: Detail) -> str:
    most = detail.names * (10 if severity == "critical" else 1)
    stacks = _names((stack for stack, _ in group if stack), most)
    resources = _names((finding.resource for _, finding in group if finding.resource), most)
    lines = list(dict.fromkeys(line for _, finding in group for line in finding.details))
    told = [code(_cut(line)) for line in lines[: detail.lines]]
    if detail.lines and len(lines) > len(told):
        told.append(f"and {len(lines) - len(told)} more")
    what = "<br>".join([f"**{words(_cut(group[0][1].title))}**", *told])
    return f"| {severity} | {stacks} | {resources} | {what} |"


def _names(names: Iterable[str], most: int) -> str:
    each = list(dict.fromkeys(names))
    shown = ", ".join(code(_cut(name)) for name in each[:most])
    return f"{shown} and {len(each) - most} more" if len(each) > most else shown


def _cut(line: str, most: int = 400) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _counts(stacks: Iterable[StackReview]) -> Iterator[str]:
    yield "| stack | create | update | replace | delete | other | unchanged |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for stack in stacks:
        counted = defaultdict(int, stack.counts)
        main = [counted.pop(op, 0) for op in ("create", "update", "replace", "delete")]
        same = sum(counted.pop(op, 0) for op in ("same", "read", "refresh"))
        numbers = " | ".join(str(number) for number in (*main, sum(counted.values()), same))
        yield f"| {code(stack.stack)} | {numbers} |"


def _stack(stack: StackReview, detail: Detail) -> list[str]:
    low = [finding for finding in stack.findings if finding.severity == "low"]
    body: list[str] = []
    if low and detail.low != 0:
        body += ["", *_HEAD, *_of_severity("low", [(stack.stack, finding) for finding in low], detail)]
    body += ["", *_rows(stack.changes, detail)]
    while body and not body[-1]:
        body.pop()
    if not body:
        return []
    summary = f"<details><summary>{html_code(stack.stack)}: every change</summary>"
    return [summary, *body, "", "</details>", ""]


def _rows(changes: Iterable[Change], detail: Detail) -> Iterator[str]:
    """One row per resource and, below it, one per property; then new resources, and what is only counted."""
    listed = [change for change in changes if change.op != "create"]
    made = [change for change in changes if change.op == "create"]
    kept = listed[: detail.rows]
    if kept:
        yield "| change | type | resource | property | before | after |"
        yield "|---|---|---|---|---|---|"
        for change in kept:
            yield f"| {change.op} | {code(_kind(change.type))} | {code(change.name)} | | | |"
            yield from _properties(change) if detail.properties else ()
        yield ""
    if made and detail.created:
        yield "| created | resources |"
        yield "|---|---|"
        for kind, of in groupby(made, lambda change: change.type):
            yield f"| {code(_kind(kind))} | {', '.join(code(change.name) for change in of)} |"
        made = []
    yield from _types([*listed[len(kept) :], *made])


def _properties(change: Change) -> Iterator[str]:
    for row in change.properties:
        forces = " (replaces)" if row.replaces else ""
        before, after = (code(value) if value else "" for value in (row.old, row.new))
        yield f"| | | | {code(row.path)}{forces} | {before} | {after} |"


def _types(changes: Iterable[Change]) -> Iterator[str]:
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for change in changes:
        counted[(change.op, _kind(change.type))] += 1
    if counted:
        yield "| counted | type | resources |"
        yield "|---|---|---:|"
        for (op, kind), count in sorted(counted.items()):
            yield f"| {op} | {code(kind)} | {count} |"


def _kind(token: str) -> str:
    """`aws:s3/bucket:Bucket` as `aws:s3:Bucket`."""
    package, _, rest = token.partition(":")
    module, _, name = rest.partition(":")
    return f"{package}:{module.partition('/')[0]}:{name}"


def _left_out(review: Review, detail: Detail) -> str:
    parts = []
    if not detail.properties and any(change.properties for stack in review.stacks for change in stack.changes):
        parts.append("the properties of each resource")
    if detail.rows is not None and any(_listed(stack) > detail.rows for stack in review.stacks):
        parts.append("the names of some resources that change")
    if not detail.created and any(change.op == "create" for stack in review.stacks for change in stack.changes):
        parts.append("the names of the resources that are created")
    cut = [s for s in SEVERITIES if (most := detail.most(s)) is not None and len(_groups(_of(review, s))) > most]
    if cut:
        parts.append(f"findings of {' and '.join(cut)} severity")
    if any(len(group) > detail.names for s in SEVERITIES for group in _groups(_of(review, s))):
        parts.append("names of resources in findings")
    if detail.lines < Detail.lines:
        long = any(len(f.details) > detail.lines for stack in review.stacks for f in stack.findings)
        parts += ["lines of findings"] if long else []
    return ", ".join(parts)


def _listed(stack: StackReview) -> int:
    return sum(change.op != "create" for change in stack.changes)
