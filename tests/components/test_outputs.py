"""Outputs within plain data: only they are awaited, and what they carry stays with them."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.output import Unknown

from components.outputs import json_of, whole
from tests.components.recording import run


def resolved(make: Any) -> dict[str, Any]:
    """The resolved output: its value, and whether it is known and secret."""
    found: dict[str, Any] = {}

    def program() -> None:
        output = make()

        async def look() -> None:
            found.update(value=await output.future(), known=await output.is_known(), secret=await output.is_secret())

        pulumi.Output.from_input(look())

    run(program, preview=True)
    return found


def test_every_output_is_filled_in_where_it_was():
    def make() -> pulumi.Output[Any]:
        one, two = pulumi.Output.from_input("one"), pulumi.Output.from_input([2])
        return whole({"a": [one, {"b": two}], "c": ("x", one), "d": None})

    assert resolved(make) == {
        "value": {"a": ["one", {"b": [2]}], "c": ["x", "one"], "d": None},
        "known": True,
        "secret": False,
    }


def test_plain_data_is_known_at_once():
    assert resolved(lambda: json_of({"a": [1]})) == {"value": '{"a": [1]}', "known": True, "secret": False}


def test_what_is_unknown_or_secret_makes_the_whole_so():
    assert resolved(lambda: json_of({"a": [pulumi.Output.secret("s")]}))["secret"]
    assert not resolved(lambda: json_of({"a": [pulumi.Output.from_input(Unknown())]}))["known"]
