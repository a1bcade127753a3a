"""Requests to Pub/Sub, Monitoring and Logging, and what follows from their answers. It cannot prove how Google acts."""

import json

import pytest
import requests
from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials

from tests.stored import write_round, write_spec
from tests.unit.google_fakes import BUCKET, PROJECT, FakeGoogle, gcp_descriptor, gcp_queue, names_of
from tidemill.client.rounds.deliveries import ChunkFacts
from tidemill.client.site import Site
from tidemill.clouds.account import LogSearch
from tidemill.clouds.gcp import session as gcp_session
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.descriptor import GcpQueue, Resources
from tidemill.errors import CallerError, CloudError
from tidemill.job import MAX_CHUNKS, JobSpec
from tidemill.ledger import Counts, Ledger, Listing, Outcome, Round, RoundArray
from tidemill.services.backend import Array, ArrayAddress, ArrayState, DeadLetter, Shape
from tidemill.services.pubsub.backend import IN_FLIGHT, GcpPubSub, publish_request
from tidemill.services.pubsub.backlog import EMPTY_SECONDS, EmptyPeriod, Point, empty_since
from tidemill.store import Store

JOB = "tiles-0a1b2c3d"
LONGEST = "a" * 41 + "-0a1b2c3d"
TOPIC, SUBSCRIPTION = f"projects/{PROJECT}/topics/cpu", f"projects/{PROJECT}/subscriptions/cpu"
DEAD = f"{SUBSCRIPTION}-dead"


@pytest.fixture
def google():
    return FakeGoogle()


@pytest.fixture
def store():
    return Store.open("memory://")


@pytest.fixture
def backend(google, store, monkeypatch):
    return backend_of(store, google.session(monkeypatch))


def backend_of(store, session) -> GcpPubSub:
    return GcpPubSub(gcp_descriptor(), store, GcpAccount(gcp_descriptor(), session))


def shape() -> Shape:
    return Shape(gcp_queue(), "default", Resources(), 1, "ada", {})


def array(chunks, k=0, number=0, job=JOB) -> Array:
    return Array(f"{job}-r{number}-a{k}", chunks, ArrayAddress(job, number, k, "a" * 64, "b" * 64))


def lost(backend, ledger, state) -> dict[int, str]:
    """Chunks of the job's array that the client considers lost, by the backend's answers, each with the reason."""
    (array,) = ledger.round(0).arrays
    counts = Counts(0, 0, 0, 0, 0, 0, 0, False, 0)
    waiting = set(array.all()) - ledger.done_chunks(0)
    facts = ChunkFacts(
        Site(gcp_descriptor(), ledger.store, backend), ledger, ledger.spec(), Listing(counts, [], {}, {}, waiting)
    )
    facts.look_at(0, array, state)
    return {chunk: loss.reason for chunk, loss in facts.found.items()}


def job_of(store, *arrays) -> Ledger:
    """A job whose round 0 has these arrays."""
    ledger = Ledger(store, JOB)
    chunks = sum(len(a.chunks) for a in arrays)
    values = {"job": JOB, "name": "tiles", "queue": "cpu", "command": ["x"], "chunk_size": 1}
    write_spec(ledger, JobSpec.model_validate(values | {"items_total": chunks, "chunks_total": chunks}))
    write_round(ledger, Round(round=0, arrays=[RoundArray(name=a.name, chunks=list(a.chunks)) for a in arrays]))
    return ledger


def done(ledger, *chunks):
    for chunk in chunks:
        ledger.chunk(0, chunk).commit("a", [Outcome(index=chunk, uri="u", status="succeeded")])


# ---- publishing ----------------------------------------------------------------------------------------------------


def test_a_message_a_chunk_and_a_request_an_array(backend, google, store):
    backend.enqueue(shape(), [array(range(1000)), array([7, 2000], 1)])
    assert sorted(google.published) == [2, 1000]
    labels = [message.attributes for message in google.messages[SUBSCRIPTION]]
    assert sorted(int(one["chunk"]) for one in labels) == sorted([*range(1000), 7, 2000])
    same = {"job": JOB, "round": "0", "job_sha256": "a" * 64, "round_sha256": "b" * 64}
    assert all(one == same | {"chunk": one["chunk"]} for one in labels)
    assert sorted(store.list("jobs")) == [f"jobs/{JOB}/published/r0-a0~1000", f"jobs/{JOB}/published/r0-a1~2"]


def test_the_largest_request_of_the_longest_job_is_far_below_what_is_accepted():
    body = publish_request(array(range(MAX_CHUNKS - 1000, MAX_CHUNKS), 49, 999, LONGEST))
    assert len(json.dumps(body)) < 500_000


@pytest.mark.parametrize("job", [JOB, "x" * 5000])
def test_what_pubsub_would_refuse_for_its_size_is_not_sent(backend, google, job):
    with pytest.raises(CallerError, match="Pub/Sub accepts 1000 and 4194304 in a request"):
        backend.enqueue(shape(), [array(range(1001 if job == JOB else 1000), job=job)])
    assert google.calls == []


def test_a_submit_that_dies_leaves_no_record_of_what_was_not_answered(backend, google):
    """The next submit publishes requests in flight again: at most IN_FLIGHT of them."""
    answered = []

    def die(api, path):
        answered.append(path)
        return requests.ReadTimeout("no answer") if len(answered) > 3 else None

    google.refuse = die
    arrays = [array(range(k * 10, k * 10 + 10), k) for k in range(20)]
    with pytest.raises(CloudError, match="Google could not be asked"):
        backend.enqueue(shape(), arrays)
    known = {state.name for state in backend.describe(gcp_queue(), JOB, 0)}
    assert len(known) == len(google.published) == 3
    # After the failure only requests in flight were completed.
    assert len(answered) <= 3 + IN_FLIGHT * 7
    google.refuse = lambda api, path: None
    backend.enqueue(shape(), [a for a in arrays if a.name not in known])
    chunks = sorted(int(message.attributes["chunk"]) for message in google.messages[SUBSCRIPTION])
    assert chunks == list(range(200))


def test_a_reply_that_is_lost_is_asked_for_again_and_the_message_is_there_twice(backend, google):
    """It costs only a look: the ledger decides outcomes."""
    lost = [True]

    def lose(api, path):
        if lost and path.endswith(":publish"):
            lost.clear()
            google.messages[SUBSCRIPTION].append(None)
            return requests.ConnectionError("reset by peer")
        return None

    google.refuse = lose
    backend.enqueue(shape(), [array([0])])
    assert len(google.messages[SUBSCRIPTION]) == 2


def test_arrays_are_known_by_their_records(backend, google, store):
    backend.enqueue(shape(), [array(range(3)), array([5], 0, 1), array([6], 12, 1)])
    found = backend.describe(gcp_queue(), JOB)
    assert {(state.name, state.size, state.ended) for state in found} == {
        (f"{JOB}-r0-a0", 3, False),
        (f"{JOB}-r1-a0", 1, False),
        (f"{JOB}-r1-a12", 1, False),
    }
    assert {state.name for state in backend.describe(gcp_queue(), JOB, 1)} == {f"{JOB}-r1-a0", f"{JOB}-r1-a12"}
    assert backend.describe(gcp_queue(), "other-00000000") == []
    assert backend.cancel(found, "why") == 3


def test_after_the_retention_nothing_is_delivered_any_more(backend, google, store):
    backend.enqueue(shape(), [array(range(3))])
    (state,) = backend.describe(gcp_queue(), JOB)
    for age, ended in ((2678400 - 60, False), (2678400 + 60, True)):
        google.now = state.created_at + age
        backend.queue_states({"cpu": gcp_queue()})  # any answer tells the time
        (now,) = backend.describe(gcp_queue(), JOB)
        assert now.ended is ended
        assert bool(now.reason) is ended


# ---- what is lost --------------------------------------------------------------------------------------------------


def test_dead_letters_are_looked_at_and_given_back(backend, google, store):
    ledger = job_of(store, array(range(6)))
    backend.enqueue(shape(), [array(range(6))])
    google.messages[SUBSCRIPTION].append(type(google.messages[SUBSCRIPTION][0])({"job": "else-00000000"}))
    google.kill(SUBSCRIPTION, JOB, [1, 4, 5])
    (state,) = backend.describe(gcp_queue(), JOB)
    assert lost(backend, ledger, state) == dict.fromkeys(
        (1, 4, 5), "it was delivered 100 times without a record, and is a dead letter now"
    )
    assert backend.dead_letters(gcp_queue(), JOB) == [DeadLetter(0, chunk, 100) for chunk in (1, 4, 5)]
    assert backend.dead_letters(gcp_queue(), "else-00000000") == []
    assert [message.ack_id for message in google.messages[DEAD]] == ["", "", ""]


def test_a_look_that_dies_gives_back_what_it_held(backend, google, store):
    backend.enqueue(shape(), [array(range(6))])
    google.kill(SUBSCRIPTION, JOB, list(range(6)))
    pulls = []

    def die(api, path):
        pulls.append(path)
        return (400, {"error": {"message": "no"}}) if path.endswith(":pull") and len(pulls) > 2 else None

    google.refuse = die
    with pytest.raises(CloudError, match="was refused: 400: no"):
        backend.dead_letters(gcp_queue(), JOB)
    assert [message.ack_id for message in google.messages[DEAD]] == [""] * 6


def test_only_the_dead_letters_that_are_meant_are_thrown_away(backend, google, store):
    backend.enqueue(shape(), [array(range(6)), array([1], 0, 1)])
    google.kill(SUBSCRIPTION, JOB, [1, 4])
    assert backend.forget_dead(gcp_queue(), JOB, []) == 0
    assert backend.forget_dead(gcp_queue(), "else-00000000", [DeadLetter(0, 1, 100)]) == 0
    assert backend.forget_dead(gcp_queue(), JOB, [DeadLetter(0, 1, 100)]) == 1
    assert backend.dead_letters(gcp_queue(), JOB) == [DeadLetter(0, 4, 100), DeadLetter(1, 1, 100)]


def zeros(start, end):
    return [(float(at), 0) for at in range(int(start), int(end), 60)]


def test_what_an_empty_backlog_no_longer_holds_is_lost(backend, google, store):
    ledger = job_of(store, array(range(6)))
    backend.enqueue(shape(), [array(range(6))])
    (state,) = backend.describe(gcp_queue(), JOB)
    done(ledger, 0, 2)
    google.now = state.created_at + 1200
    ledger.chunk(0, 3).marker("a", 1, {}).write([3])
    google.points["cpu"] = [(state.created_at, 6), *zeros(state.created_at + 120, google.now - 100)]
    backend.queue_states({"cpu": gcp_queue()})  # any answer tells the time
    words = "it is not done, and the queue no longer holds it"
    # Chunk 3's worker wrote long ago, by the cloud's clock.
    assert lost(backend, ledger, state) == dict.fromkeys((1, 3, 4, 5), words)


def test_a_chunk_of_which_a_worker_has_just_written_is_not_lost(backend, google, store):
    ledger = job_of(store, array(range(3)))
    backend.enqueue(shape(), [array(range(3))])
    (state,) = backend.describe(gcp_queue(), JOB)
    ledger.chunk(0, 1).marker("a", 1, {}).write([1])
    google.now = state.created_at + 200
    old = ArrayState(state.name, state.id, 3, {}, False, state.created_at - 2000)
    google.points["cpu"] = zeros(google.now - 900, google.now)
    backend.queue_states({"cpu": gcp_queue()})
    assert set(lost(backend, ledger, old)) == {0, 2}


@pytest.mark.parametrize("code", [403, 404])
def test_without_the_right_to_look_nothing_is_taken_for_lost(backend, google, store, code):
    ledger = job_of(store, array(range(3)))
    backend.enqueue(shape(), [array(range(3))])
    (state,) = backend.describe(gcp_queue(), JOB)
    google.now = state.created_at + 1200
    google.points["cpu"] = zeros(state.created_at, google.now)
    google.refuse = lambda api, path: (code, {"error": {"message": "no"}})
    assert lost(backend, ledger, state) == {}


@pytest.mark.parametrize(
    ("points", "run"),
    [
        ([], None),
        ([Point(60, 0), Point(120, 3)], None),
        ([Point(60, 2), Point(120, 0), Point(240, 0), Point(180, 0)], EmptyPeriod(120, 240)),
        # A gap: its values are unknown.
        ([Point(60, 0), Point(120, 0), Point(500, 0), Point(560, 0)], EmptyPeriod(500, 560)),
    ],
)
def test_the_newest_run_of_zeros(points, run):
    assert empty_since(points) == run


@pytest.mark.parametrize(
    ("since", "until", "covered"),
    [
        (0, 1060 + EMPTY_SECONDS, True),
        (0, 1059 + EMPTY_SECONDS, False),
        (1200, 1200 + EMPTY_SECONDS, True),
        (1200, 1199 + EMPTY_SECONDS, False),
        (0, 900, False),
    ],
)
def test_zeros_count_from_a_sample_after_the_publish(since, until, covered):
    assert EmptyPeriod(since, until).covers(1000) is covered


def test_every_series_of_a_backlog_counts(backend, google, store):
    ledger = job_of(store, array(range(3)))
    backend.enqueue(shape(), [array(range(3))])
    (state,) = backend.describe(gcp_queue(), JOB)
    google.now = state.created_at + 1200
    interval = [{"endTime": f"2033-01-01T00:{minute:02}:00Z"} for minute in range(10)]
    series = [
        {"points": [{"interval": one, "value": {"int64Value": value}} for one in interval]} for value in ("0", "1")
    ]
    google.refuse = lambda api, path: (200, {"timeSeries": series}) if api == "monitoring" else None
    assert lost(backend, ledger, state) == {}


# ---- logs and queues -----------------------------------------------------------------------------------------------


def test_lines_are_found_by_their_fields_through_pages(backend, google):
    for second in range(7):
        google.line(1000.5 + second, job=JOB, item=second % 2, chunk=0, stream="stdout", message=f"line {second}")
    google.line(1000, job="else-00000000", item=1, message="line 0")
    found = list(backend.account.logs(LogSearch(JOB, frozenset([1]), 1000.0)))
    assert [(line.at, line.said, line.fields["item"]) for line in found] == [
        (1001.5, "line 1", 1),
        (1003.5, "line 3", 1),
        (1005.5, "line 5", 1),
    ]
    assert all(isinstance(line.fields["item"], int) and line.id for line in found)
    assert json.loads(found[0].message)["message"] == "line 1"


def test_logs_by_time_and_text(backend, google):
    for second, text in enumerate(["no", "ein fünftes", 'say "no" AND', "No"]):
        google.line(1000 + second, job=JOB, message=text)
    assert [line.said for line in backend.account.logs(LogSearch(JOB, None, 1001.0, 1002.0))] == [
        "ein fünftes",
        'say "no" AND',
    ]
    (body,) = [call[2] for call in google.calls[-1:]]
    assert "timestamp<=" in body["filter"]
    assert [line.said for line in backend.account.logs(LogSearch(JOB, text="fünft"))] == ["ein fünftes"]


def test_a_bucket_that_is_not_there_is_empty_and_none_is_said(backend, google, store, monkeypatch):
    google.refuse = lambda api, path: (404, {"error": {"message": f"{BUCKET} not found"}})
    assert list(backend.account.logs(LogSearch(JOB))) == []
    with pytest.raises(CallerError, match="log_group"):
        list(GcpAccount(gcp_descriptor(log_group=None), google.session(monkeypatch)).logs(LogSearch(JOB)))


def test_queue_states(backend, google):
    names = {name: gcp_queue(name) for name in ("cpu", "long", "gone", "half", "cut", "other")}
    for name in ("half", "cut", "other"):
        google.add(names_of(names[name]))
    del google.resources[names_of(names["half"]).subscription]
    google.resources[names_of(names["cut"]).subscription]["topic"] = "_deleted-topic_"
    google.resources[names_of(names["other"]).subscription]["topic"] = TOPIC
    states = backend.queue_states(names)
    assert {name: (state.accepting, state.detail) for name, state in states.items()} == {
        "cpu": (True, "topic and subscription are there"),
        "long": (True, "topic and subscription are there"),
        "gone": (False, "not there: the stack was changed or destroyed"),
        "half": (False, "without its subscription: messages would be lost"),
        "cut": (False, "broken: its subscription reads a deleted topic"),
        "other": (False, "broken: its subscription reads another topic"),
    }


# ---- the login, and refusals ---------------------------------------------------------------------------------------


def test_calls_carry_the_login_and_go_to_googles_own_addresses(backend, google):
    backend.queue_states({"cpu": gcp_queue()})
    assert {headers["authorization"] for headers in google.headers} == {"Bearer ya29.t"}
    assert [call[:2] for call in google.calls] == [("pubsub", f"v1/{TOPIC}"), ("pubsub", f"v1/{SUBSCRIPTION}")]


@pytest.mark.parametrize(
    ("credentials", "user"),
    [
        (Credentials(token="t", account="ada@example.com"), "ada@example.com"),
        (Credentials(token="t"), "unknown"),
        (type("Robot", (Credentials,), {"service_account_email": "ci@p.iam.gserviceaccount.com"})(token="t"),
         "ci@p.iam.gserviceaccount.com"),
    ],
)  # fmt: skip
def test_who_is_logged_in(google, store, monkeypatch, credentials, user):
    google.refuse = lambda api, path: (200, {}) if api == "oauth2" else None
    assert GcpAccount(gcp_descriptor(), google.session(monkeypatch, credentials)).user() == user


def test_a_login_that_does_not_name_itself_is_asked_for(google, store, monkeypatch):
    google.refuse = lambda api, path: (200, {"email": "ada@example.com"}) if api == "oauth2" else None
    backend = backend_of(store, google.session(monkeypatch, Credentials(token="t")))
    assert backend.account.user() == "ada@example.com"


def test_a_persons_login_names_the_pipelines_project_for_quota(google, store, monkeypatch):
    session = google.session(monkeypatch)
    person = Credentials(token="t", refresh_token="r", client_id="i", client_secret="s", token_uri="https://x")
    monkeypatch.setattr(gcp_session, "default_credentials", lambda: person)
    monkeypatch.setattr(session, "_credentials", None)
    backend_of(store, session).queue_states({"cpu": gcp_queue()})
    assert google.headers[0]["x-goog-user-project"] == PROJECT


OFF = {
    "code": 403,
    "message": "Cloud Pub/Sub API has not been used",
    "status": "PERMISSION_DENIED",
    "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}],
}


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (401, {"message": "Invalid credentials"}, "login is not valid ("),
        (403, {"message": "User not authorized."}, "pubsub.topics.publish is denied (User not authorized). Ask the"),
        (403, OFF, f"pubsub.googleapis.com is off in project {PROJECT}. Ask the stack's owner to run `gcloud services"),
        (403, {"message": "This API requires a quota project"}, "gcloud auth application-default set-quota-project"),
        (404, {"message": "Resource not found (resource=cpu)."}, "cpu is not there: the stack was changed or destroy"),
        (400, {"message": "bad\n request."}, "pubsub.topics.publish was refused: 400: bad request."),
        (503, {"message": "try again"}, "was refused: 503: try again."),
        (429, "quota", "was refused: 429"),
    ],
)
def test_refusals_are_told_in_one_line(backend, google, status, error, words):
    google.refuse = lambda api, path: (status, {"error": error})
    with pytest.raises(CloudError) as told:
        backend.enqueue(shape(), [array([0])])
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert len(google.calls) == (7 if status in (429, 503) else 1)


@pytest.mark.parametrize("failure", [(500, {}), (503, {}), (429, {}), requests.ConnectionError("reset")])
def test_what_may_pass_is_tried_again(backend, google, failure):
    google.refuse = lambda api, path: failure if len(google.calls) < 3 else None
    backend.enqueue(shape(), [array([0])])
    assert len(google.calls) == 3


def test_a_login_that_is_over(google, store, monkeypatch):
    class Over(Credentials):
        def refresh(self, request):
            raise RefreshError("Reauthentication is needed")

    backend = backend_of(store, google.session(monkeypatch, Over(token=None, refresh_token="r")))
    for ask in (backend.account.user, lambda: backend.queue_states({"cpu": gcp_queue()})):
        with pytest.raises(CloudError, match=r"login is not valid \(Reauth.*Log in: gcloud auth application-default"):
            ask()


def test_without_google_auth_the_extra_is_named(monkeypatch, store):
    monkeypatch.setitem(__import__("sys").modules, "google.auth.transport", None)
    with pytest.raises(CallerError, match=r"pip install 'tidemill\[gcp\]'"):
        GcpAccount(gcp_descriptor()).user()


def test_a_queue_of_another_cloud(backend):
    with pytest.raises(CloudError, match="names no Pub/Sub topic"):
        backend.queue_states({"cpu": gcp_queue(gcp=None)})


def test_endpoints_follow_gclouds_variables(monkeypatch):
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    assert gcp_session.endpoint("pubsub") == ("https://pubsub.googleapis.com/", True)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB", "http://127.0.0.1:9/pubsub/")
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", "http://127.0.0.1:9/logging")
    assert gcp_session.endpoint("pubsub") == ("http://127.0.0.1:9/pubsub/", True)
    assert gcp_session.endpoint("logging") == ("http://127.0.0.1:9/logging/", True)
    assert gcp_session.endpoint("monitoring") == ("https://monitoring.googleapis.com/", True)
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:8085")
    assert gcp_session.endpoint("pubsub") == ("http://localhost:8085/", False)


def test_an_emulator_gets_no_login(google, store, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "pubsub.emulator:8085")
    backend = backend_of(store, google.session(monkeypatch))
    backend.enqueue(Shape(gcp_queue(gcp=GcpQueue(topic=TOPIC, subscription="s", dead_letters="d")), "default",
                          Resources(), 1, "ada", {}), [array([0])])  # fmt: skip
    assert "authorization" not in google.headers[0]
    assert len(google.messages[SUBSCRIPTION]) == 1


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("ahead", [600, -600])
def test_the_first_time_that_is_asked_for_is_googles_too(backend, google, monkeypatch, ahead, refused):
    """A look at a job reads nothing but the store, and a job that it lets begin has the time of that look."""
    here = google.now + ahead
    monkeypatch.setattr("time.time", lambda: here)
    if refused:
        google.refuse = lambda api, path: (403, {"error": {"message": "no"}})
    assert abs(backend.account.now() - google.now) < 2
    assert abs(backend.account.at().timestamp() - google.now) < 2
    assert len(google.calls) == 1
