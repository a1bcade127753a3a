"""An option of a submit: its flag on the command line, and what an error says of a wrong value."""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple

UNITS = ("_seconds", "_mib")
"""Ends of keywords. On the command line a value has its unit, and the flag has none: `--memory 2G` is `memory_mib`."""


class Option(NamedTuple):
    """Metadata of one keyword.

    Attributes:
        help: The flag's help; empty for a keyword without a flag.
        flag: The flag where it is not the keyword with dashes, without its unit; and other spellings of it.
        old: An earlier spelling of the flag, which still works and is not shown.
        metavar: Placeholder of the value in the help; empty for the name of its type.
        must: Allowed values, as a phrase that follows "it must be".
        fix: Remedy for a wrong value, as a sentence.
        field: The field of `JobSpec` that it sets, where that has another name.
        default: Its value where it is not given.
    """

    help: str = ""
    flag: str | tuple[str, ...] = ()
    old: str = ""
    metavar: str = ""
    must: str = ""
    fix: str = ""
    field: str = ""
    default: Any = None

    def flags(self, keyword: str) -> tuple[str, ...]:
        """The flag of a keyword, then its other spellings; none for a keyword without a flag."""
        if not self.help:
            return ()
        for unit in UNITS:
            keyword = keyword.removesuffix(unit)
        word = keyword.removeprefix("state.").replace("_", "-")
        return (self.flag,) if isinstance(self.flag, str) else self.flag or (f"--{word}",)


def option(help: str, *, default: Any = None, **more: Any) -> Any:  # noqa: A002 - the name it has everywhere
    """A field of a request; `more` are fields of its `Option`."""
    return field(default=default, metadata={"option": Option(help, default=default, **more)})
