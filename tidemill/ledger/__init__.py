"""What became of a job: rounds, attempts, progress, outcomes. Everything is in the job store; nothing else is asked."""

from tidemill.ledger.attempts import History, MarkerWriter
from tidemill.ledger.chunk import ChunkLedger, Commit
from tidemill.ledger.documents import TamperedError, UnreadableError
from tidemill.ledger.ledger import Ledger
from tidemill.ledger.listing import Again, Counts, Listing
from tidemill.ledger.records import Header, Outcome, Record
from tidemill.ledger.rounds import Round, RoundArray

__all__ = [
    "Again",
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
    "Round",
    "RoundArray",
    "TamperedError",
    "UnreadableError",
]
