"""Facts of a shelf."""

from dataclasses import dataclass

from tidemill.explain.facts import CloudFacts
from toy_service import SERVICE


@dataclass(frozen=True)
class ToyFacts(CloudFacts):
    """Chunks that wait on the shelf."""

    service = SERVICE
    waiting: int = 0
