"""Mutant: the reconciler carries out its decision however long ago it looked."""

from components.services.pubsub.reconciler_function import main


def apply() -> None:
    main.FRESH_READ_SECONDS = 10**9
