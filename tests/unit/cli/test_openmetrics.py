"""A job as Prometheus reads it. The lines are parsed by hand here, as the specification has them."""

import re
from dataclasses import replace

from tidemill.cli.openmetrics import text
from tidemill.client.plan.limit import LimitUse
from tidemill.client.watch.status import Chunks, Status

LINE = re.compile(r'(tidemill_job_\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[\d.]+)')
STATUS = Status("tiles-0a1b", "running", 10, 6, 1, 3, Chunks(4, 2, 1, 1, [3]), 2, 1)


def values(status: Status, queue: str = "cpu") -> dict[str, float]:
    *lines, end = text(status, queue).split("\n")
    assert end == "# EOF"
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    found = {}
    for line in (line for line in lines if not line.startswith("#")):
        parsed = LINE.fullmatch(line)
        assert parsed, line
        assert parsed[1] in typed
        found[line.rpartition(" ")[0]] = float(parsed[3])
    return found


def test_items_and_chunks_by_state():
    own = 'job="tiles-0a1b",queue="cpu"'
    assert values(STATUS) == {
        f'tidemill_job_items{{{own},state="succeeded"}}': 6,
        f'tidemill_job_items{{{own},state="failed"}}': 1,
        f'tidemill_job_items{{{own},state="remaining"}}': 3,
        f'tidemill_job_chunks{{{own},state="done"}}': 2,
        f'tidemill_job_chunks{{{own},state="running"}}': 1,
        f'tidemill_job_chunks{{{own},state="waiting"}}': 1,
        f'tidemill_job_chunks{{{own},state="lost"}}': 1,
        f"tidemill_job_reclaims{{{own}}}": 2,
        f"tidemill_job_ended{{{own}}}": 0,
    }


def test_what_a_job_with_a_limit_has_consumed():
    found = values(replace(STATUS, spent=LimitUse(1.5, 20.0), state="succeeded"))
    assert found['tidemill_job_spent_usd{job="tiles-0a1b",queue="cpu"}'] == 1.5
    assert found['tidemill_job_ended{job="tiles-0a1b",queue="cpu"}'] == 1


def test_labels_are_escaped():
    assert len(values(STATUS, 'c"p\\u\n} 1')) == 9
