"""docs/access.md, from the probes."""

from collections.abc import Iterable, Mapping

from tests.access import aws, google
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


def text() -> str:
    """The whole page."""
    on_aws = _section("AWS", "teams vision and audio, and vision's `dev` and `prod`, in one account", aws)
    on_google = _section("Google Cloud", "teams vision and audio in one project", google)
    return "\n".join([_HEAD, on_aws, on_google])


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
