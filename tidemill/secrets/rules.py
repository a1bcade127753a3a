"""Names and values of personal secrets, and the document that a cloud's secret store keeps for them.

This is a leaf of the standard library and of `errors`, because workers read it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tidemill.errors import CallerError

MOST_BYTES = 32 * 1024
"""Of one value. Linux takes 128 KiB for a variable, and about 2 MiB for all variables and arguments of a program."""
MOST_BYTES_TOGETHER = 64 * 1024
"""Of the whole document, in both clouds.
Sources: https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html,
https://cloud.google.com/secret-manager/quotas"""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_TAKEN = re.compile(
    r"(TIDEMILL_|AWS_|ECS_|LD_|DYLD_|GLIBC_|PYTHON|GOOGLE_APPLICATION_|CLOUDSDK_|SM_|BASH_FUNC_).*"
    r"|PATH|HOME|USER|SHELL|PWD|IFS|ENV|BASH_ENV|TMPDIR|(HTTPS?|NO|ALL)_PROXY",
    re.IGNORECASE | re.ASCII,
)
"""Variables that the worker, the loader, a shell or an SDK reads: a secret there would change what runs."""
VALUE = "text of 1 to 32768 bytes in UTF-8, without NUL"


def check_name(name: object, what: str = "name") -> None:
    """Refuse a name that no variable has, or that means something else to a program. No error shows a value that was
    typed behind it.

    Raises:
        CallerError: Which name, and what is allowed.
    """
    if isinstance(name, str) and "=" in name:
        # What follows may be the value, which no error shows.
        raise CallerError(
            f"{what} is a name and a value; it must be the name alone.",
            "`tidemill secret set NAME` asks for the value.",
            what=what,
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = "letters, digits and '_', at most 128, and not a digit first"
        raise CallerError.about(what, name, allowed, "It is the name of a variable, such as HF_TOKEN.")
    if _TAKEN.fullmatch(name):
        allowed = "another name: Tidemill, the loader, a shell or an SDK reads this variable"
        raise CallerError.about(what, name, allowed, "Choose another name, and read that one in your program.")


def check_value(name: str, value: object) -> None:
    """Refuse a value that a variable cannot hold. The error does not show it.

    Raises:
        CallerError: Which secret, how long it is, and what is allowed.
    """
    try:
        size = len(value.encode()) if isinstance(value, str) and "\0" not in value else 0
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MOST_BYTES:
        kind = "not UTF-8, or has a NUL" if isinstance(value, str) else f"of type {type(value).__name__}"
        shape = f"text of {size} bytes" if size else "empty" if value == "" else kind
        raise CallerError(
            f"the value of {name} is {shape}; it must be {VALUE}.",
            "Keep what is larger or binary in the team's data, and its password here.",
            what=name,
            allowed=VALUE,
        )


def one_line(text: str) -> str:
    """A value as it is typed, piped or read: a single line without its end; several lines as they are."""
    line = text.removesuffix("\n").removesuffix("\r")
    return text if "\n" in line else line


def read_document(text: str | bytes) -> dict[str, str]:
    """The values by name.

    Raises:
        ValueError: It is no such document. The error does not quote it.
    """
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ValueError("it does not hold names and texts in JSON")
    return values


def write_document(values: Mapping[str, str]) -> str:
    """The document.

    Raises:
        CallerError: All values together are too long.
    """
    text = json.dumps(dict(sorted(values.items())), ensure_ascii=False)
    if (size := len(text.encode())) > MOST_BYTES_TOGETHER:
        raise CallerError(
            f"your secrets would have {size} bytes together; they may have {MOST_BYTES_TOGETHER}.",
            "Remove one that no job needs: tidemill secret rm NAME.",
        )
    return text
