"""Errors by their fields, so that a better wording breaks no test."""

from collections.abc import Callable


def about(what: str, value: str = "", allowed: str = "", fix: str = "") -> Callable[[Exception], bool]:
    """For ``pytest.raises(check=...)``: an error about this key; the other fields hold at least these words."""
    wanted = {"value": value, "allowed": allowed, "fix": fix}

    def check(error: Exception) -> bool:
        one_line = "\n" not in str(error)
        parts = all(words in getattr(error, name) for name, words in wanted.items())
        return one_line and getattr(error, "what", None) == what and parts

    return check
