"""Names that an object cannot have."""

from __future__ import annotations

import re

from tidemill.store.store import Store

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TEMPORARY = re.compile(r"#\d+$")
KEY_BYTES = 1024
FILE_NAME_BYTES = 253


def refusal(store: Store, name: str) -> str | None:
    """Why no object of a store can have this name, as a predicate ("is not UTF-8, ..."); None when one can.

    obstore refuses ASCII control characters. S3 and GCS take 1024 bytes of UTF-8
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html,
    https://cloud.google.com/storage/docs/objects#naming). On disk obstore first writes ``NAME#1``, so a file's name has
    two bytes less than the file system's 255 and cannot end like that itself.
    """
    try:
        key = len(store.uri_of(name).split("/", 3)[3].encode())
    except UnicodeEncodeError:
        return "is not UTF-8, so it cannot be the name of an object"
    if _CONTROL.search(name):
        return "has a control character, so it cannot be the name of an object"
    if store.is_object_store:
        too_long = f"makes a key of {key} bytes with its prefix; the store takes {KEY_BYTES}"
        return too_long if key > KEY_BYTES else None
    last = name.rpartition("/")[2]
    if (size := len(last.encode())) > FILE_NAME_BYTES:
        return f"is a name of {size} bytes; a store on disk takes {FILE_NAME_BYTES}"
    if _TEMPORARY.search(last):
        return "ends in # and a number; a store on disk keeps such names for itself"
    return None
