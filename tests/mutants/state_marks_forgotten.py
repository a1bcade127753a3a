"""Mutant: a restored program is not known to mark its checkpoints."""

from tidemill.worker.item_state import ItemState


def apply() -> None:
    calm = ItemState._calm

    def forgetful(self):
        self._snapshots.marked = None
        return calm(self)

    ItemState._calm = forgetful  # type: ignore[method-assign]
