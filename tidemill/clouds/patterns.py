"""Texts and regular expressions in the dialects of clouds. Each dialect differs from Python's, so what a pattern cannot
say for certain it leaves open: it may match more lines, never fewer, and the client looks again at each of them."""

from __future__ import annotations

import re

_META = set("\\^$.|?*+()[]{}/")
_OPEN = re.compile(r"[^ !#-&(-_a-~]+")
"""Characters that JSON may escape, or that might end a pattern: control characters, quotes, and beyond ASCII."""
_UNCOMMON = re.compile(r"\(\?(?!:|i\))|\\[1-9AZ]|[*+?}]\+|[^ -~]")


def pattern_of(text: str) -> str:
    """A regular expression between slashes that matches every line that holds a text."""
    return _OPEN.sub("\0", text).translate({ord(each): f"\\{each}" for each in _META}).replace("\0", ".+")


def common(regex: str) -> str | None:
    """A Python expression between slashes, when RE2 and Java's dialects mean the same by it; None otherwise."""
    if _UNCOMMON.search(regex):
        return None
    return re.sub(r"\\.|/", lambda match: "\\/" if match[0] == "/" else match[0], regex)
