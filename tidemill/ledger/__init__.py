"""What became of a job: rounds, attempts, progress, outcomes. Everything is in the job store; nothing else is asked."""

from tidemill.ledger.attempts import History, MarkerWriter
from tidemill.ledger.chunk import ChunkLedger, Commit
from tidemill.ledger.documents import TamperedError, UnreadableError
from tidemill.ledger.ledger import Ledger
from tidemill.ledger.records import Header, Outcome, Record
from tidemill.ledger.rounds import Round, RoundArray
from tidemill.ledger.snapshot import Again, Counts, Snapshot

__all__ = [
    "Again",
    "ChunkLedger",
    "Commit",
    "Counts",
    "Header",
    "History",
    "Ledger",
    "MarkerWriter",
    "Outcome",
    "Record",
    "Round",
    "RoundArray",
    "Snapshot",
    "TamperedError",
    "UnreadableError",
]
