"""Notices of a machine on AWS and what it is, as its host writes them into files."""

import io
import urllib.error
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from components.services.batch import host
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.worker.metadata import Notice
from tidemill.worker.metadata.ec2 import Ec2Notice, read_machine, read_notice

WHERE = RanOn("i-0abc", "c7i.4xlarge", "eu-central-1b", "spot")


def test_a_notice_is_there_once_it_is_written(tmp_path):
    machine = Ec2Notice(tmp_path / "notice")
    assert machine.notice() is None
    assert not machine.at_risk()
    (tmp_path / "rebalance").write_text("{}")
    assert (machine.at_risk(), machine.notice()) == (True, None)
    (tmp_path / "notice").write_text('{"action": "terminate"}')
    assert machine.notice() == Notice(None)


@pytest.mark.parametrize(
    ("seconds", "stays"),
    [(120, 15), (80, 10), (-600, 15), (3600, 15)],
    ids=["real", "late", "clock ahead", "clock behind"],
)
def test_how_long_a_drained_worker_stays(seconds, stays):
    time = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    assert read_notice(f'{{"action": "terminate", "time": "{time}"}}').until_not_placeable(15) == pytest.approx(
        stays, abs=0.5
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"time": "soon"}', '{"time": "2026-11-21T08:00:00"}'])
def test_a_notice_that_says_nothing_is_a_notice(text):
    assert read_notice(text).until_not_placeable(15) == 15


def test_on_aws_the_host_tells_its_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    facts = {
        "meta-data/instance-id": "i-0abc",
        "meta-data/instance-type": "c7i.4xlarge",
        "meta-data/placement/availability-zone": "eu-central-1b",
        "meta-data/instance-life-cycle": "spot",
    }
    monkeypatch.setattr(host, "FOLDER", str(tmp_path))
    monkeypatch.setattr(host, "metadata", facts.__getitem__)
    host.describe()
    assert read_machine(tmp_path / "machine") == WHERE
    assert [each.name for each in tmp_path.iterdir()] == ["machine"]


def test_a_host_without_an_answer_serves_all_the_same(tmp_path, monkeypatch, capsys):
    def refused(path: str) -> str:
        raise urllib.error.HTTPError(path, 503, "later", {}, io.BytesIO())  # type: ignore[arg-type]

    monkeypatch.setattr(host, "FOLDER", str(tmp_path))
    monkeypatch.setattr(host, "metadata", refused)
    host.describe()
    assert "later" in capsys.readouterr().out
    assert read_machine(tmp_path / "machine") == UNKNOWN


@pytest.mark.parametrize("text", ["", "[]", "nonsense", "null", '{"id": null, "market": "scheduled"}'])
def test_what_an_old_host_or_a_damaged_file_says_is_unknown(tmp_path, text):
    (tmp_path / "machine").write_text(text)
    assert read_machine(tmp_path / "machine") == UNKNOWN
