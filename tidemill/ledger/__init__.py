"""What became of a job: rounds, attempts, progress, outcomes. Everything is in the job store; nothing else is asked."""

from tidemill.ledger.attempts import MarkerWriter, Past
from tidemill.ledger.ledger import Commit, Ledger
from tidemill.ledger.look import Again, Counts, Look
from tidemill.ledger.records import Header, Outcome, Record
from tidemill.ledger.rounds import Round, RoundArray

__all__ = [
    "Again",
    "Commit",
    "Counts",
    "Header",
    "Ledger",
    "Look",
    "MarkerWriter",
    "Outcome",
    "Past",
    "Record",
    "Round",
    "RoundArray",
]
