"""Text of items and programs, made harmless for a terminal and for a page."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters but tab and line feed, and what is invisible or turns the direction of text: a name must neither
# move a terminal's cursor nor look like another. Surrogates and non-characters cannot be written at all.
_INVISIBLE = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
_UNSAFE = re.compile(f"[{_INVISIBLE}]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def visible(value: object) -> str:
    """A value as text without control sequences: colours go, every other control character becomes U+FFFD."""
    text = str(value).replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _COLOUR.sub("", text))


def json_line(value: Any) -> str:
    """A value as JSON on one line: readable letters as they are, everything that a terminal could act on escaped."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
