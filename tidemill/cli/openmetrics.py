"""A job's progress for Prometheus: the text of one scrape, for a textfile collector or a Pushgateway.

The format: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.client.watch.status import Status

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def text(status: Status, queue: str) -> str:
    """Gauges of a job. Numbers are those of `tidemill status`, which may fall when a retry begins."""
    chunks, labels = status.chunks, {"job": status.job, "queue": queue}
    items = {"succeeded": status.succeeded, "failed": status.failed, "remaining": status.remaining}
    states = {"done": chunks.done, "running": chunks.running, "waiting": chunks.waiting, "lost": len(chunks.lost)}
    families: dict[str, tuple[str, Mapping[str, float]]] = {
        "items": ("Items by what became of them.", items),
        "chunks": ("Chunks by what is happening to them.", states),
        "reclaims": ("Deliveries that a reclaim ended.", {"": status.reclaims}),
        "ended": ("1 when nothing will change by itself.", {"": int(status.ended)}),
    }
    if status.first_item_seconds is not None:
        families["first_item_seconds"] = ("How long the first item waited.", {"": status.first_item_seconds})
    if status.spent:
        families["spent_usd"] = ("What a job with a limit has consumed.", {"": status.spent.usd})
    lines: list[str] = []
    for name, (help_text, values) in families.items():
        full = f"tidemill_job_{name}"
        lines += [f"# TYPE {full} gauge", f"# HELP {full} {help_text}"]
        lines += [f"{full}{_labels(labels | ({'state': state} if state else {}))} {v}" for state, v in values.items()]
    return "\n".join([*lines, "# EOF"])


def _labels(values: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in values.items()) + "}"
