"""What the store makes of S3's answers, over HTTP and obstore's own retries. The server here is a few lines that answer
as they are told; that S3 answers so is a row of docs/cloud-facts.md."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tidemill import store as module
from tidemill.errors import CallerError, StoreDeniedError, StoreError
from tidemill.job import build_spec
from tidemill.ledger import Ledger, Outcome
from tidemill.store import Store, Stores

JOB = "t-00000000"


class Bucket:
    """A bucket whose answers can be told: ``faults`` are (method, pattern of the key, what to do), each used once.

    ``409`` answers so and writes nothing; ``500-after`` and ``drop-after`` write first; ``drop`` does not.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.faults: list[tuple[str, str, str]] = []
        self.requests: list[tuple[str, str]] = []
        self.hides_absence = False
        """403 instead of 404, as for a role that may list only some prefixes."""
        self.forbidden = ""
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                key, body = bucket.key(self.path), self.rfile.read(int(self.headers["Content-Length"]))
                fault = bucket.fault("PUT", key)
                if fault == "drop":
                    self._drop()
                elif fault == "409":
                    self._error(409, "ConditionalRequestConflict")
                elif self.headers.get("If-None-Match") == "*" and key in bucket.objects:
                    self._error(412, "PreconditionFailed")
                else:
                    bucket.objects[key] = body
                    self._after(fault)

            def _after(self, fault: str | None) -> None:
                if fault == "500-after":
                    self._error(500, "InternalError")
                elif fault == "drop-after":
                    self._drop()
                else:
                    self._answer(200, b"", ETag='"1"')

            def do_GET(self) -> None:
                key = bucket.key(self.path)
                fault = bucket.fault("GET", key)
                if fault == "drop":
                    self._drop()
                elif not key:
                    self._answer(200, bucket.listing(self.path))
                elif bucket.forbidden and key.startswith(bucket.forbidden):
                    self._error(403, "AccessDenied")
                elif key in bucket.objects:
                    self._answer(
                        200, bucket.objects[key], ETag='"1"', **{"Last-Modified": "Sat, 21 Nov 2026 08:00:00 GMT"}
                    )
                else:
                    self._error(
                        403 if bucket.hides_absence else 404, "AccessDenied" if bucket.hides_absence else "NoSuchKey"
                    )

            do_HEAD = do_GET  # noqa: N815 the name that the server looks for

            def _error(self, code: int, name: str) -> None:
                self._answer(code, f"<Error><Code>{name}</Code><Message>{name}</Message></Error>".encode())

            def _answer(self, code: int, body: bytes, **headers: str) -> None:
                self.send_response(code)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def _drop(self) -> None:
                self.close_connection = True
                self.connection.close()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 as the base calls it
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def key(self, path: str) -> str:
        key = unquote(urlsplit(path).path).removeprefix("/bucket").removeprefix("/")
        return key

    def fault(self, method: str, key: str) -> str | None:
        self.requests.append((method, key))
        for fault in self.faults:
            if fault[0] == method and re.search(fault[1], key):
                self.faults.remove(fault)
                return fault[2]
        return None

    def listing(self, path: str) -> bytes:
        query = parse_qs(urlsplit(path).query)
        prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
        found = [key for key in sorted(self.objects) if key.startswith(prefix) and key > after]
        contents = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(self.objects[key])}</Size><ETag>1</ETag>"
            "<LastModified>2026-11-21T08:00:00Z</LastModified></Contents>"
            for key in found
        )
        return (
            f"<ListBucketResult><Name>bucket</Name><Prefix>{prefix}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
        ).encode()


@pytest.fixture
def bucket(monkeypatch):
    bucket = Bucket()
    thread = threading.Thread(target=bucket.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0, 0.0))
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{bucket.server.server_port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-west-2",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        yield bucket
    finally:
        bucket.server.shutdown()
        thread.join(timeout=10)
        bucket.server.server_close()


@pytest.fixture
def ledger(bucket):
    return Ledger(Store.open("s3://bucket"), JOB)


def commit(ledger: Ledger, attempt: str, status: Literal["succeeded", "failed"] = "succeeded"):
    return ledger.commit(0, 3, attempt, [Outcome(index=0, uri="u", status=status)])


@pytest.mark.parametrize("fault", ["409", "500-after", "drop", "drop-after"])
def test_our_own_commit_is_never_taken_for_anothers(bucket, ledger, fault):
    bucket.faults = [("PUT", "/done/", fault)]
    assert commit(ledger, "a1").won
    assert bucket.faults == []
    record = ledger.committed(0, 3)
    assert record is not None
    assert record.header.attempt == "a1"
    assert sum(method == "PUT" for method, key in bucket.requests) >= (1 if fault == "drop-after" else 2)


@pytest.mark.parametrize("fault", [None, "409", "drop"])
def test_anothers_commit_is_never_taken_for_ours(bucket, ledger, fault):
    assert commit(ledger, "a1", "failed").won
    bucket.faults = [("PUT", "/done/", fault)] if fault else []
    lost = commit(ledger, "a2")
    assert not lost.won
    assert lost.record.header.attempt == "a1"
    assert ledger.failed_chunks(0) == {3: 1}


def test_a_store_that_only_conflicts_gives_no_answer(bucket, ledger):
    bucket.faults = [("PUT", "/done/", "409")] * 8
    with pytest.raises(StoreError):
        commit(ledger, "a1")
    assert not any("/done/" in key for key in bucket.objects)


def test_absence_is_absence_for_a_role_that_may_list_only_prefixes(bucket, ledger):
    bucket.hides_absence = True
    assert not ledger.is_cancelled()
    assert ledger.committed(0, 3) is None
    bucket.objects[f"jobs/{JOB}/cancellee"] = b""
    bucket.objects[f"jobs/{JOB}/job.json"] = b""
    assert not ledger.is_cancelled()
    ledger.cancel()
    assert ledger.is_cancelled()


def test_a_refusal_of_what_is_there_is_a_refusal(bucket, ledger):
    bucket.objects["jobs/x"] = b"1"
    bucket.forbidden = "jobs/x"
    with pytest.raises(StoreDeniedError):
        ledger.store.get("jobs/x")


def test_a_listing_that_breaks_off_goes_on(bucket, ledger):
    for n in range(5):
        bucket.objects[f"jobs/{JOB}/r0/done/{n}/{n}.jsonl"] = b""
    bucket.faults = [("GET", "^$", "drop")]
    assert ledger.done_chunks(0) == set(range(5))


def test_a_name_that_cannot_be_asked_for_is_said_at_once(bucket):
    store, name = Stores(None).locate("s3://bucket/a//b")
    with pytest.raises(CallerError, match=r"by its \{uri\}"):
        store.size(name)


def test_a_spec_is_written_once_whatever_the_answer(bucket, ledger):
    spec = build_spec(name="t", queue="q", command=["p"], chunk_size=1, items_total=1, chunks_total=1, job=JOB)
    bucket.faults = [("PUT", "job.json", "drop-after")]
    assert ledger.write_spec(spec) == ledger.write_spec(spec)
