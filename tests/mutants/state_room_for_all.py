"""Mutant: what is there already needs room again."""

from tidemill import tree


def apply() -> None:
    tree._fits = lambda file, folder: False
