"""What became of a job: rounds, attempts, progress, outcomes. Everything is in the job store; nothing else is asked."""

from tidemill.ledger.attempts import History, MarkerWriter
from tidemill.ledger.ledger import Commit, Ledger
from tidemill.ledger.records import Header, Outcome, Record
from tidemill.ledger.rounds import Round, RoundArray
from tidemill.ledger.snapshot import Again, Counts, Snapshot

__all__ = [
    "Again",
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
]
