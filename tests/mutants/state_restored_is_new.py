"""Mutant: what an attempt has restored counts as if it had sent it."""

import time

from tidemill.state import Saver


def apply() -> None:
    restored = Saver.restored

    def as_new(self, snapshot):  # type: ignore[no-untyped-def]
        restored(self, snapshot)
        self._sent_at = dict.fromkeys(self._sent_at, time.time())
        return False

    Saver.restored = as_new  # type: ignore[method-assign]
