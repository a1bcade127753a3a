"""Mutant: a failure counts against its snapshot whichever round it was in."""

from dataclasses import replace

from tidemill.state import choose
from tidemill.worker import item_state


def apply() -> None:
    item_state.choose = lambda found: choose([replace(one, round=0) for one in found])
