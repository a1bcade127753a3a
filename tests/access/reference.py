"""docs/access.md, from the probes."""

from collections.abc import Iterable, Mapping

from tests.access import aws, google
from tests.access.edges import EDGES, Edge
from tests.access.probes import Probe
from tests.components.stacks import ROOT

PAGE = ROOT / "docs" / "access.md"
_HEAD = """\
# Who may do what

Every row is a call that a test checks against the policies that the stacks really create (`tests/access`; `python -m
tests.access` writes this page). localcloud's evaluators answer. They follow the clouds' documentation; where a cloud
decides otherwise, this page is wrong. **yes** is allowed, *no* is refused.

The setting is the weakest supported separation: two teams, and two environments of one of them, share an account or a
project. An account or project for each is the stronger wall ([teams.md](teams.md)).
"""

_EDGES = """\
## Who reads what others wrote

Every place where a process with more rights, or of somebody else, reads what one with fewer wrote. Tests are below
`tests/`; those in `tests/attack` run hostile programs as items, with the sockets, mounts and credentials of the
machines of localcloud.

| what | who writes it | who reads it | what the reader checks | a hostile test |
|---|---|---|---|---|"""


def text() -> str:
    """The whole page."""
    on_aws = _section("AWS", "teams vision and audio, and vision's `dev` and `prod`, in one account", aws)
    on_google = _section("Google Cloud", "teams vision and audio in one project", google)
    return "\n".join([_HEAD, on_aws, on_google, _EDGES, *map(_row, EDGES), ""])


def _row(edge: Edge) -> str:
    return f"| {edge.what} | {edge.writer} | {edge.reader} | {edge.checks} | `{edge.test}` |"


def _section(cloud: str, setting: str, probes: object) -> str:
    identities: Mapping[str, str] = vars(probes)["IDENTITIES"]
    asked: Iterable[Probe] = vars(probes)["PROBES"]
    lines = [f"## {cloud}: {setting}", ""]
    for who, called in identities.items():
        lines += [f"### {called[0].upper()}{called[1:]}", "", "| may | call | on | why |", "|---|---|---|---|"]
        rows = [probe for probe in asked if probe.who == who]
        lines += [f"| {'**yes**' if p.may else '*no*'} | `{p.action}` | {p.on.text} | {p.why} |" for p in rows]
        lines.append("")
    return "\n".join(lines)
