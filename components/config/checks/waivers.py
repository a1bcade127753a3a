"""Rules of the waivers: not ended, limited in time, unique."""

import datetime

from ..errors import ConfigError, key_path, shown
from ..models import StackConfig

LONGEST_DAYS = 366
"""A waiver is temporary: it needs another review after a year."""
_UNWAIVABLE = "any-tidemill-waiver-"


def check_waivers(config: StackConfig) -> None:
    """Every waiver must be in force, end within a year, name a rule that can be waived, and be unique."""
    today = datetime.datetime.now(datetime.UTC).date()
    seen: set[tuple[str, str | None]] = set()
    for index, waiver in enumerate(config.waivers):
        here = ["waivers", index]
        if waiver.until < today:
            raise ConfigError(
                key_path([*here, "until"]),
                str(waiver.until),
                "today or later",
                "Remove the waiver and obey the rule, or set a later day and say why it takes longer",
                sentence=f": the waiver of {waiver.rule} ended on {waiver.until}",
            )
        if (waiver.until - today).days > LONGEST_DAYS:
            raise ConfigError(
                key_path([*here, "until"]),
                str(waiver.until),
                f"a day within a year, {today + datetime.timedelta(LONGEST_DAYS)} or earlier",
                "Give an earlier day; a later review can extend it",
            )
        if waiver.rule.startswith(_UNWAIVABLE):
            raise ConfigError(
                key_path([*here, "rule"]), shown(waiver.rule), "a rule about resources", "Mend the waivers themselves"
            )
        if (waiver.rule, waiver.resource) in seen:
            raise ConfigError(
                key_path(here),
                f"a second waiver of {waiver.rule} for {waiver.resource or 'every resource'}",
                "one waiver for each rule and resource",
                "Remove one of them",
            )
        seen.add((waiver.rule, waiver.resource))
