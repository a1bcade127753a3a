"""Mutant: the reconciler carries out what it decided however long ago it looked."""

from components.gcp.reconciler_function import main


def apply() -> None:
    main.FRESH_READ_SECONDS = 10**9
