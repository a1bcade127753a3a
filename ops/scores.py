"""A cloud's scores of the Spot fleets that a preview changes."""

import contextlib
import json
from typing import Any

from ops.advise.figures import Book, Chance
from ops.review.document import Preview, parse
from ops.review.spot import fleets
from tidemill.advice.live import open_source
from tidemill.advice.sources import Question
from tidemill.errors import CallerError


def spot_scores(document: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each fleet that the cloud says something about; a login that may not ask gets none.

    Args:
        document: Of `ops preview --json`.
    """
    preview = parse(json.dumps(document), document["stack"])
    if not preview.preview or not preview.region:
        return []
    # Answers that are kept belong to an account. A stack has one, which its file names on GCP only.
    account = preview.preview.config.get("gcp:project") or f"stack {preview.stack}"
    asked = {fleet.step.name: fleet for fleet in fleets(preview.steps) if fleet.cpus and not fleet.attached}
    rows = []
    for name, fleet in asked.items():
        chance = _chance(preview, account, Question((preview.region,), tuple(fleet.types), fleet.cpus or 0))
        if chance:
            told = {"told": chance.told, "low": chance.low, "at": chance.at.isoformat(), "source": chance.source}
            rows.append({"fleet": name, **told})
    return rows


def _chance(preview: Preview, account: str, question: Question) -> Chance | None:
    """None also where nothing can be asked: a preview needs no advice."""
    (region,) = question.regions
    source = open_source(preview.cloud, region, account)
    with contextlib.suppress(CallerError):
        return Book(preview.cloud, region, source.ask(question)).chances() if source else None
    return None
