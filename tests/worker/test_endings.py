"""Who tells the end of a job, when and how often. What this cannot prove: that Slack, SNS and Pub/Sub take it."""

import base64
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.loopback_s3 import serving
from tests.unit.client_fakes import outcome, pipeline, uris
from tests.worker.containers import until
from tests.worker.here import Here
from tidemill import layout
from tidemill.cli import main
from tidemill.client.plan import notification
from tidemill.client.rounds import deliveries
from tidemill.client.watch import wait
from tidemill.descriptor import SPEC_VERSION
from tidemill.ending import gate, public, tries
from tidemill.ending.address import check_address, keep_address
from tidemill.ending.gate import UntoldError, tell
from tidemill.ending.message import Message
from tidemill.ending.webhook import Webhook
from tidemill.errors import CallerError
from tidemill.ledger import Ledger, Round, RoundArray
from tidemill.store import Store
from tidemill.worker.channels import PubSubTopics, Sns, signed
from tidemill.worker.chunks.endings import may_be_last

MESSAGE = Message("tiles-0a1b2c3d/r0", "tiles-0a1b2c3d", "cpu", "failed", 10, 8, 2)
SECRET = "T0/B0/Xy"


class Hook:
    """A receiver. `answers` are its statuses, the last one from then on; 0 hangs until the end of the test."""

    def __init__(self, *answers):
        self.answers, self.said, self.end = list(answers) or [200], [], threading.Event()


@contextmanager
def receiver(*answers, said=""):
    hook = Hook(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            hook.said.append((self.path, self.headers["Tidemill-Id"], body))
            code = hook.answers[0] if len(hook.answers) == 1 else hook.answers.pop(0)
            if not code:
                hook.end.wait(60)
                return
            self.send_response(code)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.end_headers()

        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, format, *args):  # noqa: A002 as the base calls it
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with serving(server):
        try:
            yield hook, f"http://127.0.0.1:{server.server_port}/{SECRET}"
        finally:
            hook.end.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tries, "PAUSES", (0.01, 0.01))
    # A machine that is busy may take long for an answer, which would be tried again.
    monkeypatch.setattr("tidemill.ending.webhook.TRY_SECONDS", 60)
    monkeypatch.setattr(tries, "ENOUGH_SECONDS", 600)


# ---- the gate -------------------------------------------------------------------------------------------------------


def test_of_many_tellers_at_once_one_sends():
    store, sent = Store.open("memory://"), []
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda n: tell(store, MESSAGE, str(n), sent.append), range(64)))
    assert sent == [MESSAGE]
    assert set(said) <= {"sent", "sending"}
    assert tell(store, MESSAGE, "later", sent.append) == "sent"
    assert len(sent) == 1


def test_a_teller_that_dies_is_followed_by_another_and_a_failure_is_tried_three_times(tmp_path):
    """By the store's clock."""
    store = Store.open(tmp_path.as_uri())

    def pass_by(seconds):
        for path in tmp_path.rglob("told/*"):
            at = path.stat().st_mtime - seconds
            os.utime(path, (at, at))

    def die(message):
        raise KeyboardInterrupt

    def fail(message):
        raise UntoldError("HTTP 500")

    with pytest.raises(KeyboardInterrupt):
        tell(store, MESSAGE, "one", die)
    assert tell(store, MESSAGE, "two", fail) == "sending", "the first may still be at it"
    for _ in range(2):
        pass_by(gate.TELLER_SECONDS + 5)
        assert tell(store, MESSAGE, "two", fail) == "HTTP 500"
    pass_by(10 * gate.TELLER_SECONDS)
    assert tell(store, MESSAGE, "three", lambda message: pytest.fail("a fourth try")) == "HTTP 500"
    other = replace(MESSAGE, id="tiles-0a1b2c3d/r1")
    assert tell(store, other, "three", lambda message: None) == "sent", "another round has an end of its own"


def test_a_clock_that_is_ahead_takes_no_tellers_place(tmp_path, monkeypatch):
    store, clock = Store.open(tmp_path.as_uri()), time.time

    def ask(message):
        monkeypatch.setattr(time, "time", lambda: clock() + 3 * gate.TELLER_SECONDS)
        said.append(tell(store, MESSAGE, "laptop", lambda message: pytest.fail("a second message")))

    said: list[str] = []
    assert tell(store, MESSAGE, "worker", ask) == "sent"
    assert said == ["sending"]


@pytest.mark.parametrize("chunks", [1, 2, 40])
def test_the_last_commit_in_any_order_knows_that_it_may_be_the_last(chunks, monkeypatch):
    monkeypatch.setattr("tidemill.worker.chunks.endings.PAGE", 10)
    target, _ = pipeline()
    for seed in range(10):
        job = target.submit(["x", "{uri}"], uris(chunks), queue="cpu", name=f"j{seed}", chunk_size=1)
        ledger, order = Ledger(target.store, job.id), list(range(chunks))
        random.Random(seed).shuffle(order)
        said = []
        for chunk in order:
            ledger.chunk(0, chunk).commit("a", [outcome(chunk, "x", False)])
            said.append(may_be_last(ledger, ledger.rounds()[0], chunk))
        assert said[-1]
        assert sum(said) <= max(1, chunks // 2), "most commits ask no further"


@pytest.mark.parametrize("page", [2, 1000])
def test_the_last_commit_of_a_repaired_job_knows_in_any_order(page, monkeypatch):
    """Some chunks seemed lost and were sent again, some of them twice, while the others ran."""
    monkeypatch.setattr("tidemill.worker.chunks.endings.PAGE", page)
    store, work = Store.open("memory://"), {(0, chunk) for chunk in range(20)} - {(0, 2), (0, 17), (0, 19)}
    work |= {(1, 2), (1, 17), (2, 19)}
    for seed in range(10):
        ledger, order = Ledger(store, f"j{seed}-0a1b2c3d"), sorted(work)
        rounds = [
            ledger.add_round(Round(round=number, arrays=[array]))
            for number, array in enumerate([
                RoundArray(name="0", first=0, count=20),
                RoundArray(name="1", chunks=[2, 17, 19]),
                RoundArray(name="2", chunks=[19]),
            ])
        ]  # fmt: skip
        random.Random(seed).shuffle(order)
        said = []
        for number, chunk in order:
            ledger.chunk(number, chunk).commit("a", [outcome(chunk, "x", False)])
            said.append(may_be_last(ledger, rounds[number], chunk))
        assert said[-1]
        assert not said[0]


# ---- webhooks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "problem", "asked"),
    [
        ((200,), None, 1),
        ((500, 503, 204), None, 3),
        ((500,), "HTTP 500", 3),
        ((429, 200), None, 2),
        ((404,), "HTTP 404", 1),
        ((302,), "HTTP 302", 1),
        ((0,), "no answer in time", 3),
    ],
)
def test_a_receiver_gets_a_few_tries(answers, problem, asked, monkeypatch):
    store = Store.open("memory://")
    if answers == (0,):
        monkeypatch.setattr("tidemill.ending.webhook.TRY_SECONDS", 0.3)
    with receiver(*answers) as (hook, url):
        keep_address(store, MESSAGE.job, url)
        if problem:
            with pytest.raises(UntoldError, match=problem) as raised:
                Webhook(store, "here").send(MESSAGE)
            assert SECRET not in str(raised.value)
        else:
            Webhook(store, "here").send(MESSAGE)
        text = "tiles-0a1b2c3d failed: 2 of 10 items failed. `tidemill failures tiles-0a1b2c3d`"
        until(lambda: len(hook.said) >= asked, "every try")
        assert hook.said == [(f"/{SECRET}", MESSAGE.id, f'{{"text": "{text}"}}')] * asked


def test_a_receiver_out_of_reach_is_an_error():
    store = Store.open("memory://")
    keep_address(store, MESSAGE.job, f"http://127.0.0.1:9/{SECRET}")
    with pytest.raises(UntoldError, match=r"no connection \(ConnectionRefusedError\)"):
        Webhook(store, "here").send(MESSAGE)
    store.put(layout.webhook(MESSAGE.job), b"http://example.com/x")
    with pytest.raises(UntoldError, match="missing or damaged"):
        Webhook(store, "here").send(MESSAGE)


@pytest.mark.parametrize(
    "url",
    [
        f"http://hooks.example.com/{SECRET}",
        f"https://ada:secret@hooks.example.com/{SECRET}",
        f"ftp://hooks.example.com/{SECRET}",
        f"file:///etc/{SECRET}",
        f"https:///{SECRET}",
        f"https://hooks.example.com/{SECRET}\nHost: x",
        f"https://hooks.example.com:x/{SECRET}",
        f"https://[{SECRET}",
        f"https://hooks.example.com/{SECRET}/" + "a" * 3000,
        f"http://127.0.0.1/{SECRET}",
    ],
)
def test_addresses_that_are_refused_are_not_repeated(url):
    with pytest.raises(CallerError) as raised:
        check_address(url, here=False)
    assert raised.value.what == "notify"
    assert SECRET not in f"{raised.value} {raised.value.to_json()}"
    assert check_address(f"http://127.0.0.1/{SECRET}", here=True) == "127.0.0.1"


PRIVATE = ("127.0.0.1", "::1", "10.0.0.5", "169.254.169.254", "100.64.0.1", "0.0.0.0", "fe80::1%eth0", "fd00::1",
           "::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::", "224.0.0.1",
           "::a00:5", "::ffff:0:a00:5", "64:ff9b:1::a00:5", "fec0::1")  # fmt: skip


class Lookups:
    """Name servers, and what is connected to: nothing answers there."""

    def __init__(self, monkeypatch, *answers):
        self.answers, self.asked, self.connected = list(answers), [], []
        monkeypatch.setattr(public.socket, "getaddrinfo", self._look_up)
        monkeypatch.setattr(public.socket, "create_connection", self._connect)

    def _look_up(self, host, port, **more):
        self.asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in self.answers.pop(0)]

    def _connect(self, address, *more):
        self.connected.append(address)
        raise ConnectionRefusedError


def sent_by(where, url):
    store = Store.open("memory://")
    store.put(layout.webhook(MESSAGE.job), url.encode())
    with pytest.raises(UntoldError) as raised:
        Webhook(store, where).send(MESSAGE)
    return str(raised.value)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_person_posts_to_no_address_of_their_own_network(address, monkeypatch):
    """The job's programs may have written the address, and people's machines reach more than those of a queue."""
    names = Lookups(monkeypatch, [address], ["93.184.215.14", address])
    for _ in range(2):
        assert "its address is not public" in sent_by("person", f"https://rebound.example.com/{SECRET}")
    assert (len(names.asked), names.connected) == (2, [])


def test_a_client_that_may_not_send_leaves_the_message_to_the_jobs_machines(monkeypatch):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    job = target.submit(["x"], uris(1), queue="cpu", notify="https://chat.example.com/x")
    backend.run(target, job.id)
    Lookups(monkeypatch, *[["10.0.0.5"]] * 4)
    said = "chat.example.com was not told: its address is not public, so only the job's machines may send there"
    assert [job.status().told for _ in range(4)] == [said] * 4
    assert not list(target.store.list(layout.told(job.id)))


def test_a_name_is_looked_up_once_for_each_try(monkeypatch):
    answers = [["93.184.215.14", "2606:2800:21f::1"], ["127.0.0.1"]]
    names = Lookups(monkeypatch, *answers)
    assert "its address is not public" in sent_by("person", f"https://rebound.example.com:8443/{SECRET}")
    assert names.connected == [("93.184.215.14", 8443), ("2606:2800:21f::1", 8443)]
    names = Lookups(monkeypatch, ["10.0.0.5"])
    assert "ConnectionRefusedError" in sent_by("machine", f"https://chat.example.com/{SECRET}"), "its programs may, too"


def test_behind_a_proxy_private_hosts_are_refused_and_unknown_names_are_its_own(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://10.0.0.1:3128")
    names = Lookups(monkeypatch, ["10.0.0.5"])
    assert "its address is not public" in sent_by("person", f"https://chat.example.com/{SECRET}")
    assert names.connected == []

    def unknown(*given, **more):
        raise public.socket.gaierror

    monkeypatch.setattr(public.socket, "getaddrinfo", unknown)
    assert "ConnectionRefusedError" in sent_by("person", f"https://hooks.example.com/{SECRET}")
    assert set(names.connected) == {("10.0.0.1", 3128)}


@pytest.mark.parametrize("where", ["machine", "person"])
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "https://ada:pw@hooks.example.com/", "https://", "https://a/ b"]
)
def test_an_address_that_was_replaced_is_checked_as_a_new_one(where, url, monkeypatch):
    names = Lookups(monkeypatch)
    assert sent_by(where, url) == "the job's address is missing or damaged"
    assert names.asked == []


def test_a_look_at_a_cloud_job_posts_to_no_port_of_this_machine(monkeypatch):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    with receiver() as (hook, url):
        job = target.submit(["x"], uris(1), queue="cpu", notify="https://hooks.example.com/x")
        backend.run(target, job.id)
        target.store.put(layout.webhook(job.id), url.encode())
        assert job.status().told == "hooks.example.com was not told: the job's address is missing or damaged"
        assert not hook.said


# ---- jobs -----------------------------------------------------------------------------------------------------------


@contextmanager
def told(*answers, **changes):
    """A pipeline, its queue, and a receiver whose address stands in for an https one that is public."""
    target, backend = pipeline(max_spec=SPEC_VERSION, **changes)
    with receiver(*answers) as (hook, url), pytest.MonkeyPatch.context() as patch:
        patch.setattr(notification, "_where", lambda site: "here")

        def submit(name="tiles", **more: Any):
            address: dict[str, Any] = {"notify": f"https://hooks.example.com/{SECRET}"} | more
            job = target.submit(["x", "{uri}"], uris(4), queue="cpu", name=name, chunk_size=1, **address)
            target.store.put(layout.webhook(job.id), url.encode())
            return job

        yield target, backend, submit, hook


def texts(hook):
    return [body.split('"')[3].partition(".")[0] for _, _, body in hook.said]


def test_who_looks_next_tells_what_a_dead_worker_did_not():
    with told() as (target, backend, submit, hook):
        job = submit()
        assert job.status().told is None
        backend.run(target, job.id, fail_items=[1])
        assert not hook.said, "the worker was killed right after its last commit"
        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda _: target.job(job.id).status().told, range(8)))
        assert set(said) <= {"hooks.example.com was told", "hooks.example.com is being told"}
        assert job.wait().told == "hooks.example.com was told"
        assert texts(hook) == [f"{job.id} failed: 1 of 4 items failed"]
        job.retry()
        assert job.status().told is None
        backend.run(target, job.id)
        job.status()
        assert texts(hook)[1:] == [f"{job.id} succeeded: 4 items"]


def test_a_cancel_sends_the_message(monkeypatch):
    with told() as (_, _, submit, hook):
        job = submit()
        job.cancel("<!channel> \x1b[31m")
        assert texts(hook) == [f"{job.id} was cancelled by ada: at least 0 of 4 items have ended, 0 of them failed"]
        assert job.cancel() == 0
        job.status()
        assert len(hook.said) == 1


def test_a_wait_that_gives_up_tells_that_the_job_cannot_finish(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.setattr(wait.time, "sleep", lambda seconds: None)
    with told() as (target, backend, submit, hook):
        job = submit()
        backend.run(target, job.id, skip_chunks=[2])
        assert job.status().told is None, "it may be repaired"
        assert job.wait(repair=False).state == "lost"
        assert texts(hook) == [f"{job.id} cannot finish: 3 of 4 items have ended, 0 of them failed"]


def test_a_receiver_that_fails_fails_nothing_else():
    with told(500) as (target, backend, submit, _):
        job = submit()
        backend.run(target, job.id)
        status = job.wait()
        assert (status.state, status.exit_code) == ("succeeded", 0)
        assert status.told == "hooks.example.com was not told: HTTP 500"


def test_a_receiver_that_hangs_keeps_no_one(monkeypatch):
    monkeypatch.setattr("tidemill.client.plan.notification.PATIENCE_SECONDS", 0.2)
    with told(0) as (target, backend, submit, _):
        job = submit()
        backend.run(target, job.id)
        # One that waited for the receiver would say that it was not told.
        assert job.status().told == "hooks.example.com is being told"


def test_the_address_is_in_no_other_object_and_in_nothing_that_is_shown(capsys):
    with told() as (target, backend, submit, _):
        said = []
        job = submit(log=said.append)
        backend.run(target, job.id)
        status = job.status()
        address = f"hooks.example.com/{SECRET}"
        target.store.put(layout.webhook(job.id), b"")
        shown = [*said, job.spec.model_dump_json(), str(status.to_json()), str(status.facts()), repr(job)]
        shown += [target.store.get(name).decode(errors="replace") for name in target.store.list("jobs")]
        assert not [text for text in shown if address in text or SECRET in text]
        assert any(text.startswith("hooks.example.com is told") for text in said)
        again = submit(log=said.append, notify=None)
        assert again.id == job.id
        assert any("was sent before: hooks.example.com is told" in text for text in said)


def published_to(published):
    def publish(topic, subject, text, fields):
        published.append((topic, subject, text, fields))

    return publish


def test_channels_are_those_of_the_stack():
    topic = "arn:aws:sns:us-west-2:123456789012:oncall"
    with told(channels={"oncall": topic}) as (target, backend, submit, _):
        published: list[Any] = []
        backend.publish = published_to(published)
        job = submit(notify="oncall")
        assert job.spec.notify is not None
        assert (job.spec.notify.topic, job.spec.spec_version) == (topic, 5)
        backend.run(target, job.id)
        assert job.status().told == "oncall was told"
        assert [message[:2] for message in published] == [(topic, f"{job.id} succeeded")]
        assert published[0][3]["state"] == "succeeded"
        with pytest.raises(CallerError, match="oncall") as raised:
            submit("other", notify="on-call")
        assert raised.value.what == "notify"
    with told() as (_, _, submit, _), pytest.raises(CallerError, match="it has none"):
        submit(notify="oncall")


def test_an_older_stack_refuses_it():
    target, _ = pipeline(max_spec=4)
    with pytest.raises(CallerError, match="leave `notify` out"):
        target.submit(["x", "{uri}"], uris(1), queue="cpu", notify="https://hooks.example.com/x")


def test_one_receiver_at_most(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--notify", "a", "--notify", "b", "x", "--", "true"]) == 2
    assert "is given 2 times" in capsys.readouterr().err


def test_a_local_job_tells_once(here: Here):
    """Its worker or the command that looks: whichever sees the end first."""
    with receiver() as (hook, url):
        done = here.run("--name", "here", "--workers", "2", "--notify", url, "1", "2", "3", "--", "echo", "{uri}")
        assert done.returncode == 0, done.stderr
        [(path, _, _)] = hook.said
        assert path == f"/{SECRET}"
        assert len(list(here.store.glob("jobs/here-*/told/r0~0"))) == 1


# ---- topics ---------------------------------------------------------------------------------------------------------


def test_the_signature_is_botocores():
    url, body, now = "https://sns.us-west-2.amazonaws.com/", b"Action=Publish&Message=%C3%A9", datetime.now(UTC)
    login = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI", "Token": "token"}
    ours = signed(url, body, "us-west-2", login, now)
    theirs = AWSRequest("POST", url, {"content-type": ours["content-type"]}, body)
    auth = SigV4Auth(Credentials(*login.values()), "sns", "us-west-2")
    theirs.context["timestamp"] = ours["x-amz-date"]
    theirs.headers["X-Amz-Date"] = ours["x-amz-date"]
    theirs.headers["X-Amz-Security-Token"] = "token"
    signature = auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs)
    assert ours["Authorization"].endswith(f"Signature={signature}")


def test_a_machine_publishes_to_pub_sub():
    topic = "projects/my-project/topics/oncall"
    with receiver(503, 200) as (hook, url):
        host = url.removeprefix("http://").partition("/")[0]
        PubSubTopics(None, {"PUBSUB_EMULATOR_HOST": host}).publish(topic, MESSAGE)
        assert [path for path, _, _ in hook.said] == [f"/v1/{topic}:publish"] * 2
        [message] = json.loads(hook.said[1][2])["messages"]
        assert base64.b64decode(message["data"]).decode() == MESSAGE.text
        assert message["attributes"] == MESSAGE.fields
    with receiver(403) as (hook, url):
        topics = PubSubTopics(None, {"PUBSUB_EMULATOR_HOST": url.removeprefix("http://").partition("/")[0]})
        with pytest.raises(UntoldError, match="Pub/Sub answers HTTP 403"):
            topics.publish(topic, MESSAGE)
    assert len(hook.said) == 1


@pytest.mark.parametrize("code", [200, 403])
def test_a_container_publishes_to_sns(code):
    login = json.dumps({"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI", "Token": "token"})
    with receiver(code, said=login) as (hook, url):
        where = url.rpartition("/T0")[0]
        env = {"AWS_ENDPOINT_URL_SNS": where, "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{where}/login"}
        topic = "arn:aws:sns:us-west-2:123456789012:oncall"
        if code == 200:
            Sns(env).publish(topic, MESSAGE)
        else:
            with pytest.raises(UntoldError, match="SNS answers HTTP 403"):
                Sns(env).publish(topic, MESSAGE)
        [(_, _, body)] = hook.said
        form = parse_qs(body)
        assert form["TopicArn"] == [topic]
        assert form["Message"] == [MESSAGE.text]
        assert form["MessageAttributes.entry.1.Value.StringValue"] == [MESSAGE.id]
