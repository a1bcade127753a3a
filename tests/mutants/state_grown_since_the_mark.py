"""Mutant: what was learnt of a file after the mark was made counts, too."""

from tidemill.state.grown import Grown


def apply() -> None:
    marked = Grown.marked

    def always(self, mark):
        self._after = None
        marked(self, mark)

    Grown.marked = always  # type: ignore[method-assign]
