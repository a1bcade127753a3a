"""The log of a job as files, interrupted at any place. What this cannot prove: how a cloud orders lines of one time."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.cli import main
from tidemill.client.results import download_logs
from tidemill.client.rounds import deliveries
from tidemill.clouds.account import LogLine
from tidemill.errors import CallerError

LINES = 10_000


@pytest.fixture
def sent(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.setattr(download_logs, "_SAVED_LINES", 700)
    target, backend = pipeline()
    job = target.submit(["x", "{input}"], uris(20), queue="cpu", name="tiles", chunk_size=2)
    start = job.spec.created_at.timestamp() + 1
    ages = random.Random(53)
    for number in range(LINES):
        # Lines that share their millisecond, of items in any order.
        item, at = ages.randrange(20), start + (number // 3) / 1000 + ages.random() / 4000
        fields = {"job": job.id, "item": item, "attempt": 1, "stream": "stdout", "message": f"line {number}"}
        backend.lines.append(LogLine(at, "", f"vm/{item % 4}", fields, str(number)))
    backend.lines.sort(key=lambda line: line.at)
    backend.now = lambda: start + 10_000
    return target, backend, job


def said(folder: Path) -> list[str]:
    lines = [line for path in folder.glob("*.log") for line in path.read_text().splitlines()]
    return sorted((line.split(" ", 3)[3] for line in lines), key=lambda text: int(text.split()[1]))


EVERY = [f"line {number}" for number in range(LINES)]


def test_each_line_is_in_its_items_file_once(sent, tmp_path):
    _, backend, job = sent
    done = job.download_logs(tmp_path / "logs")
    assert (done.lines, done.files, done.resumed) == (LINES, 20, False)
    assert said(tmp_path / "logs") == EVERY
    first = (tmp_path / "logs" / "7.log").read_text().splitlines()[0]
    line = next(line for line in backend.lines if line.fields["item"] == 7)
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    assert first == f"{at}Z 1 stdout {line.said}"


@pytest.mark.parametrize("by", ["item", "container"])
def test_an_interrupted_download_goes_on_where_it_was(sent, tmp_path, by):
    _, backend, job = sent
    read = backend.logs
    for cut in (350, 1500, 4321, 9999):

        def dying(search, cut=cut):
            found = (line for line in read(search) if search.since <= line.at)
            yield from (line for _, line in zip(range(cut), found, strict=False))
            raise KeyboardInterrupt

        backend.logs = dying
        with pytest.raises(KeyboardInterrupt):
            job.download_logs(tmp_path, by=by)
    backend.logs = read
    last = job.download_logs(tmp_path, by=by)
    assert last.resumed
    assert last.lines < LINES / 2
    assert said(tmp_path) == EVERY
    assert len(list(tmp_path.glob("*.log"))) == (20 if by == "item" else 4)
    again = job.download_logs(tmp_path, by=by)
    assert (said(tmp_path), again.lines < 10) == (EVERY, True)


def test_a_download_while_the_job_runs_takes_late_lines_in_later(sent, tmp_path):
    _, backend, job = sent
    late = backend.lines.pop(LINES - 50)
    backend.now = lambda: backend.lines[-1].at
    job.download_logs(tmp_path)
    backend.lines.insert(LINES - 50, late)
    backend.now = lambda: backend.lines[-1].at + 1000
    job.download_logs(tmp_path)
    assert said(tmp_path) == EVERY


def test_logs_of_other_downloads_are_not_mixed(sent, tmp_path):
    _, _, job = sent
    job.download_logs(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.log").write_text("mine")
    for folder, more in (("a", {"by": "container"}), ("a", {"failed": True}), ("b", {})):
        with pytest.raises(CallerError) as refused:
            job.download_logs(tmp_path / folder, **more)
        assert refused.value.what == "folder"
    assert (tmp_path / "b" / "1.log").read_text() == "mine"
    assert said(tmp_path / "a") == EVERY


def test_nothing_is_written_through_a_link(sent, tmp_path):
    _, _, job = sent
    job.download_logs(tmp_path / "a")
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "a" / "1.log").unlink()
    (tmp_path / "a" / "1.log").symlink_to(tmp_path / "theirs")
    with pytest.raises(CallerError) as refused:
        job.download_logs(tmp_path / "a")
    assert refused.value.what == "folder"
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_very_many_files_want_a_yes(sent, tmp_path, monkeypatch):
    _, _, job = sent
    monkeypatch.setattr(download_logs, "MANY_ITEMS", 19)
    with pytest.raises(CallerError) as refused:
        job.download_logs(tmp_path / "a")
    assert refused.value.what == "items"
    assert not (tmp_path / "a").exists()
    assert job.download_logs(tmp_path / "a", any_number=True).files == 20
    assert job.download_logs(tmp_path / "b", by="container").files == 4


def test_a_folder_that_cannot_be_written_is_told(sent, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CallerError):
        sent[2].download_logs(tmp_path / "file")
    with pytest.raises(CallerError) as refused:
        sent[2].download_logs(tmp_path, by="worker")
    assert refused.value.what == "by"


@pytest.mark.parametrize("more", [["--grep", "x"], ["--follow"], ["--limit", "3"], ["--item", "0"]])
def test_options_that_do_not_go_together(more, capsys):
    assert main(["logs", "tiles-00000000", "--download", "there", *more]) == 2
    assert not Path("there").exists()
