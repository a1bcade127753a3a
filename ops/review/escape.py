"""Escapes a stack's text for Markdown, so that it appears literally.

A value may hold backticks, pipes, HTML, comments, mentions, line ends and characters that change the reading direction.
All of it goes inside `<code>`, where GitHub makes no mentions and references
(https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting). Characters with a meaning
become character references, which CommonMark reads as text (https://spec.commonmark.org/0.31.2/#entity-and-numeric-character-references).
"""

import re
import unicodedata

# Every character that may have a meaning.
_OTHER = re.compile(r"[^A-Za-z0-9 …→.,:/=+()'\"%$^;?-]")
# Where GitHub would autolink.
_LINK = re.compile(r"(?i)(?:(?<=http)|(?<=https)|(?<=ftp)):(?=//)|(?<=www)\.")
_SPACES = {"\n": "⏎", "\r": "", "\t": " "}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def code(text: str) -> str:
    """Text as code in a line of Markdown, in a table or outside of one."""
    shown = inert(text)
    return f"`{text}`" if shown == text and text.strip() else f"<code>{shown}</code>"


def html_code(text: str) -> str:
    """Text as code inside an HTML block, where Markdown is not parsed."""
    return f"<code>{inert(text)}</code>"


def words(text: str) -> str:
    """Text within our own line, outside code, with mentions and references broken up."""
    return re.sub(r"(&#(?:64|35);)", r"\1&#8203;", inert(text))


def inert(text: str) -> str:
    """Text in a line without meaning in Markdown and HTML; invisible characters are spelled out."""
    return _LINK.sub(lambda match: f"&#{ord(match[0])};", _OTHER.sub(_reference, text))


def _reference(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SPACES:
        return _SPACES[character]
    if unicodedata.category(character) in _INVISIBLE:
        return f"&#92;u{ord(character):04x}"
    if character.isalnum() or (character == "_" and _within_word(match.string, match.start())):
        return character
    return f"&#{ord(character)};"


def block(text: str, most_lines: int = 30) -> str:
    """Lines as a code block with a fence longer than any in the text; long texts keep their last lines."""
    lines = ["".join(c for c in line if unicodedata.category(c)[0] != "C" or c == "\t") for line in text.split("\n")]
    if len(lines) > most_lines:
        lines = [f"… {len(lines) - most_lines} lines before", *lines[-most_lines:]]
    body = "\n".join(line[:500] for line in lines)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{body}\n{fence}"


def _within_word(text: str, index: int) -> bool:
    """An underscore between letters starts no emphasis."""
    return 0 < index < len(text) - 1 and text[index - 1].isalnum() and text[index + 1].isalnum()
