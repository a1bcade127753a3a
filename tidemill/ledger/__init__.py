"""The ledger of a job: rounds, attempts, progress, outcomes. Reads and writes the job store alone."""

from tidemill.ledger.attempts import History, MarkerWriter
from tidemill.ledger.chunk import ChunkLedger, Commit
from tidemill.ledger.documents import TamperedError, UnreadableError
from tidemill.ledger.ledger import Ledger
from tidemill.ledger.listing import Counts, Listing, RetryProgress
from tidemill.ledger.records import Header, Outcome, Record
from tidemill.ledger.rounds import Round, RoundArray

__all__ = [
    "ChunkLedger",
    "Commit",
    "Counts",
    "Header",
    "History",
    "Ledger",
    "Listing",
    "MarkerWriter",
    "Outcome",
    "Record",
    "RetryProgress",
    "Round",
    "RoundArray",
    "TamperedError",
    "UnreadableError",
]
