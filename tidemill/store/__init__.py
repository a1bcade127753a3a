"""Object stores: the job store, and the buckets of items and outputs."""

from tidemill.store.answers import CreateResult, Entry, UploadResult
from tidemill.store.clients import OBJECT_STORES
from tidemill.store.files import BLOCK_BYTES, STREAM_BYTES, no_room, open_plain
from tidemill.store.heads import read_heads
from tidemill.store.names import refusal
from tidemill.store.store import PAGE, Store
from tidemill.store.stores import Stores

__all__ = [
    "BLOCK_BYTES",
    "OBJECT_STORES",
    "PAGE",
    "STREAM_BYTES",
    "CreateResult",
    "Entry",
    "Store",
    "Stores",
    "UploadResult",
    "no_room",
    "open_plain",
    "read_heads",
    "refusal",
]
