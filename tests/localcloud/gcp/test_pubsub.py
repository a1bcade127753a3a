"""localcloud's Pub/Sub: Google's fake behind our front, called over REST as the worker and the client do."""

import base64
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from localcloud.gcp import seed
from localcloud.gcp.clock import Clock
from localcloud.gcp.pubsub import PubSub
from localcloud.gcp.pubsub.plugin import PubSubPlugin
from localcloud.gcp.wire import RestError
from tests.localcloud.gcp.running import BASE, OWNER, RunningGcp
from tests.localcloud.waiting import SECONDS, until

PROJECT = "v1/projects/p"
TOPIC, DEAD = "projects/p/topics/t", "projects/p/topics/dead"
SUB, DEAD_SUB = "projects/p/subscriptions/s", "projects/p/subscriptions/dead"
HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def slow() -> Iterator[PubSub]:
    """On the real clock."""
    with PubSub(pull_wait=0.2) as pubsub:
        yield prepared(pubsub)


def prepared(pubsub: PubSub) -> PubSub:
    for topic in (TOPIC, DEAD):
        pubsub.json("PUT", f"v1/{topic}", {})
    pubsub.json("PUT", f"v1/{DEAD_SUB}", {"topic": DEAD, "messageRetentionDuration": "2678400s"})
    policy = {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 5}
    declared = {"topic": TOPIC, "messageRetentionDuration": "2678400s", "deadLetterPolicy": policy}
    pubsub.json("PUT", f"v1/{SUB}", declared)
    return pubsub


def publish(pubsub: PubSub, *messages: dict[str, str]) -> list[str]:
    body = {"messages": [{"attributes": attributes} for attributes in messages]}
    return pubsub.json("POST", f"v1/{TOPIC}:publish", body)["messageIds"]


def pull(pubsub: PubSub, limit: int = 1, sub: str = SUB) -> list[dict[str, Any]]:
    return pubsub.json("POST", f"v1/{sub}:pull", {"maxMessages": limit}).get("receivedMessages", [])


def one(pubsub: PubSub, sub: str = SUB) -> dict[str, Any]:
    """Wait for the next message."""
    return until(lambda: pull(pubsub, sub=sub))[0]


def acknowledge(pubsub: PubSub, *ids: str) -> Any:
    return pubsub.json("POST", f"v1/{SUB}:acknowledge", {"ackIds": list(ids)})


def deadline(pubsub: PubSub, ack_id: str, seconds: int, sub: str = SUB) -> Any:
    body = {"ackIds": [ack_id], "ackDeadlineSeconds": seconds}
    return pubsub.json("POST", f"v1/{sub}:modifyAckDeadline", body)


def unacked(pubsub: PubSub, sub: str = SUB) -> int:
    return pubsub.control()["subscriptions"][sub]["unacked"]


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as error:
        action()
    return str(error.value)


def test_a_message_is_published_leased_returned_and_acknowledged(slow: PubSub) -> None:
    data = base64.b64encode(b"\0chunk").decode()
    body = {"messages": [{"data": data, "attributes": {"job": "j", "chunk": "7"}}]}
    [published] = slow.json("POST", f"v1/{TOPIC}:publish", body)["messageIds"]
    first = one(slow)
    assert first["message"]["messageId"] == published
    assert (first["message"]["data"], first["message"]["attributes"]) == (data, {"job": "j", "chunk": "7"})
    assert abs(_epoch(first["message"]["publishTime"]) - time.time()) < SECONDS
    assert first["deliveryAttempt"] == 1
    assert (pull(slow), unacked(slow)) == ([], 1)  # a lease is not an acknowledgement
    deadline(slow, first["ackId"], 0)
    second = one(slow)
    assert (second["deliveryAttempt"], second["message"]["messageId"]) == (2, published)
    acknowledge(slow, first["ackId"])
    assert unacked(slow) == 1, "an old lease's acknowledgement counts for nothing"
    acknowledge(slow, second["ackId"])
    assert (unacked(slow), pull(slow)) == (0, [])


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_what_is_over_the_limits_is_refused(slow: PubSub) -> None:
    assert "400" in refused(lambda: publish(slow, *[{"a": "b"}] * 1001))
    assert "400" in refused(lambda: publish(slow, {}))
    heavy = {"messages": [{"data": base64.b64encode(bytes(3 << 20)).decode()}] * 4}
    assert "payload size" in refused(lambda: slow.json("POST", f"v1/{TOPIC}:publish", heavy))
    assert "404" in refused(
        lambda: slow.json("POST", "v1/projects/p/topics/none:publish", {"messages": [{"data": "eA=="}]})
    )
    publish(slow, {"a": "b"})
    received = one(slow)
    assert "0..600" in refused(lambda: deadline(slow, received["ackId"], 601))
    assert "Invalid JSON" in refused(lambda: slow.json("POST", f"v1/{SUB}:pull", {"max": 1}))
    for wrong in ({"messageRetentionDuration": "2678401s"}, {"ackDeadlineSeconds": 601},
                  {"deadLetterPolicy": {"deadLetterTopic": DEAD, "maxDeliveryAttempts": 4}},
                  {"deadLetterPolicy": {"deadLetterTopic": "projects/p/topics/none"}}):  # fmt: skip
        declared = {"topic": TOPIC, **wrong}
        refused(lambda declared=declared: slow.json("PUT", "v1/projects/p/subscriptions/other", declared))


def test_a_lease_that_is_not_extended_ends_and_one_that_is_lasts_for_hours() -> None:
    clock = Clock(1200.0)  # an hour in three seconds, a lease of ten minutes in half a second
    with PubSub(clock, pull_wait=0.2 * clock.factor) as pubsub:
        prepared(pubsub)
        publish(pubsub, {"n": "1"})
        lease, begun = one(pubsub)["ackId"], clock.now()
        while clock.now() < begun + HOUR:
            extended = clock.now()
            deadline(pubsub, lease, 600)
            taken = pubsub.json("POST", f"v1/{SUB}:pull", {"maxMessages": 1, "returnImmediately": True})
            if clock.now() < extended + 600:  # otherwise this machine stalled, and the lease has expired
                assert taken == {}
            elif taken:
                lease, begun = taken["receivedMessages"][0]["ackId"], clock.now()
            time.sleep(0.05)
        first = one(pubsub)  # no longer extended
        assert first["ackId"] != lease
        acknowledge(pubsub, first["ackId"])
        assert unacked(pubsub) == 0


def test_a_retry_policy_keeps_a_returned_message_back_for_longer_each_time() -> None:
    clock = Clock(60.0)
    with PubSub(clock, pull_wait=0.5 * clock.factor) as pubsub:
        prepared(pubsub)
        policy = {"retryPolicy": {"minimumBackoff": "30s", "maximumBackoff": "90s"}}
        pubsub.json("PATCH", f"v1/{SUB}", {"subscription": policy, "updateMask": "retryPolicy"})
        publish(pubsub, {"n": "1"})
        received = one(pubsub)
        for least in (30, 60, 90, 90):
            returned = clock.now()
            deadline(pubsub, received["ackId"], 0)
            received = one(pubsub)
            assert clock.now() - returned >= least
        assert received["deliveryAttempt"] == 5
        policy["retryPolicy"]["maximumBackoff"] = "601s"
        wrong = {"subscription": policy, "updateMask": "retryPolicy"}
        assert "backoff" in refused(lambda: pubsub.json("PATCH", f"v1/{SUB}", wrong))


def test_a_message_lasts_for_its_declared_retention_which_is_more_than_pstest_keeps() -> None:
    clock = Clock(10 * DAY)  # ten days a second
    with PubSub(clock, pull_wait=0.01 * clock.factor) as pubsub:
        prepared(pubsub)
        assert pubsub.json("GET", f"v1/{SUB}")["messageRetentionDuration"] == "2678400s"
        in_time, published = False, 0.0
        while not in_time:  # a machine that stalled for three seconds tries again
            [identity] = publish(pubsub, {"n": "1"})
            published = clock.now()
            time.sleep(clock.real(8 * DAY))
            came = {received["message"]["messageId"] for received in pull(pubsub, 1000)}
            in_time = clock.now() < published + 30 * DAY
            assert identity in came or not in_time
        until(lambda: not unacked(pubsub))
        assert clock.now() > published + 31 * DAY
        assert (unacked(pubsub), pull(pubsub)) == (0, [])
        assert pubsub.control()["counters"]["expired"] >= 1


def test_without_the_service_agents_grants_a_message_is_tried_for_ever(slow: PubSub) -> None:
    publish(slow, {"chunk": "3"})
    for attempt in range(1, 8):
        status, body = slow.call("POST", f"v1/{SUB}:pull", b'{"maxMessages": 1}', {"X-Keep-Dead-Letters": "yes"})
        assert status == 200
        received = json.loads(body)["receivedMessages"][0]
        assert received["deliveryAttempt"] == attempt
        deadline(slow, received["ackId"], 0)
    assert (unacked(slow), unacked(slow, DEAD_SUB)) == (1, 0)


def test_duplicates_come_while_the_first_is_leased_and_either_acknowledges(slow: PubSub) -> None:
    slow.control(duplicates=1.0)
    publish(slow, {"chunk": "3"})
    first, second = one(slow), one(slow)
    assert first["message"] == second["message"]
    assert first["ackId"] != second["ackId"]
    acknowledge(slow, second["ackId"])
    assert unacked(slow) == 0
    acknowledge(slow, first["ackId"])  # no error
    for refuse in (lambda: acknowledge(slow, first["ackId"], "never"), lambda: deadline(slow, "never", 0)):
        assert "invalid ack ID" in refused(refuse)
    assert slow.control()["counters"]["duplicated"] == 1


def test_calls_fail_before_or_after_they_were_done(slow: PubSub) -> None:
    publish(slow, {"chunk": "3"})
    slow.control(fail={"pull": 1}, fail_after={"acknowledge": 1, "publish": 1})
    assert "503" in refused(lambda: pull(slow))
    received = one(slow)
    assert "UNAVAILABLE" in refused(lambda: acknowledge(slow, received["ackId"]))
    assert unacked(slow) == 0, "what was answered with an error was done"
    assert "503" in refused(lambda: publish(slow, {"chunk": "4"}))
    assert unacked(slow) == 1


def test_a_pull_waits_for_a_message() -> None:
    with PubSub(pull_wait=SECONDS) as pubsub:
        prepared(pubsub)
        found: list[Any] = []
        waiting = threading.Thread(target=lambda: found.extend(pull(pubsub)), daemon=True)
        waiting.start()
        publish(pubsub, {"chunk": "3"})
        waiting.join(SECONDS)
        assert [received["message"]["attributes"] for received in found] == [{"chunk": "3"}]
        at_once = pubsub.json("POST", f"v1/{SUB}:pull", {"maxMessages": 1, "returnImmediately": True})
        assert at_once == {}


def test_resources_are_listed_changed_and_deleted(slow: PubSub) -> None:
    assert {topic["name"] for topic in slow.json("GET", f"{PROJECT}/topics")["topics"]} == {TOPIC, DEAD}
    assert {sub["name"] for sub in slow.json("GET", f"{PROJECT}/subscriptions")["subscriptions"]} == {SUB, DEAD_SUB}
    assert slow.json("GET", f"v1/{TOPIC}/subscriptions") == {"subscriptions": [SUB]}
    change = {"subscription": {"messageRetentionDuration": "864000s"}, "updateMask": "messageRetentionDuration"}
    assert slow.json("PATCH", f"v1/{SUB}", change)["messageRetentionDuration"] == "864000s"
    moved = {"subscription": {"topic": DEAD}, "updateMask": "topic"}
    assert "cannot be updated" in refused(lambda: slow.json("PATCH", f"v1/{SUB}", moved))
    assert "409" in refused(lambda: slow.json("PUT", f"v1/{TOPIC}", {}))
    publish(slow, {"chunk": "3"})
    slow.json("DELETE", f"v1/{TOPIC}")
    assert one(slow)["message"]["attributes"] == {"chunk": "3"}  # a subscription outlives its topic
    assert slow.json("GET", f"v1/{SUB}")["topic"] == "_deleted-topic_"
    slow.json("DELETE", f"v1/{SUB}")
    assert "404" in refused(lambda: pull(slow))


STOCK_CLIENT = """
import sys, threading
from google.cloud import pubsub_v1

topic, subscription, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
publisher = pubsub_v1.PublisherClient()
publisher.publish(topic, b"", chunk="1").result(timeout=seconds)
done = threading.Event()

def take(message):
    print(dict(message.attributes), flush=True)
    message.ack()
    done.set()

with pubsub_v1.SubscriberClient() as subscriber:
    streaming = subscriber.subscribe(subscription, take)
    assert done.wait(seconds)
    streaming.cancel()
    streaming.result(timeout=seconds)
"""
"""In a separate process: its protobuf files and Pulumi's declare the same names."""


def test_the_stock_client_speaks_to_the_same_messages_over_grpc(slow: PubSub) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOCK_CLIENT, TOPIC, SUB, str(SECONDS)],
        env={**os.environ, "PUBSUB_EMULATOR_HOST": f"127.0.0.1:{slow.grpc}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "{'chunk': '1'}\n"), done.stderr
    until(lambda: not unacked(slow))


def test_the_daemon_forwards_what_was_granted_and_dead_letters_need_the_service_agents_grants(tmp_path: Path) -> None:
    topic, dead, sub, dead_sub = (f"{BASE}/{name}" for name in
                                  ("topics/t", "topics/dead", "subscriptions/s", "subscriptions/dead"))  # fmt: skip

    def call(method: str, path: str, body: Any = None, principal: str = OWNER) -> Any:
        return gcp.call("pubsub", method, f"v1/{path}", body, principal)

    def attempt() -> int:
        """Pull once. Returns the attempt number of the message, 0 without one."""
        answer = call("POST", f"{sub}:pull", {"maxMessages": 1, "returnImmediately": True})
        if not answer:
            return 0
        [received] = answer["receivedMessages"]
        call("POST", f"{sub}:modifyAckDeadline", {"ackIds": [received["ackId"]], "ackDeadlineSeconds": 0})
        return received["deliveryAttempt"]

    with RunningGcp(tmp_path) as gcp:
        for name in (topic, dead):
            call("PUT", name, {})
        call("PUT", dead_sub, {"topic": dead})
        policy = {"deadLetterTopic": dead, "maxDeliveryAttempts": 5}
        made = call("PUT", sub, {"topic": topic, "messageRetentionDuration": "2678400s", "deadLetterPolicy": policy})
        assert (made["ackDeadlineSeconds"], made["messageRetentionDuration"]) == (10, "2678400s")
        assert call("GET", sub) == made
        change = {"subscription": {"ackDeadlineSeconds": 600}, "updateMask": "ackDeadlineSeconds"}
        assert call("PATCH", sub, change)["ackDeadlineSeconds"] == 600
        assert call("GET", sub)["ackDeadlineSeconds"] == 600
        with pytest.raises(RestError, match=r"pubsub\.topics\.publish"):
            call("POST", f"{topic}:publish", {"messages": [{"attributes": {"a": "b"}}]}, "user:nobody@example.com")
        call("POST", f"{topic}:publish", {"messages": [{"attributes": {"a": "b"}}]})
        plugin = gcp.site.plugin(PubSubPlugin)
        assert plugin.backlog()[sub]["unacked"] == 1
        assert [attempt() for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
        agent = [f"serviceAccount:{seed.agent('pubsub.googleapis.com')}"]
        publisher = {"bindings": [{"role": "roles/pubsub.publisher", "members": agent}]}
        call("POST", f"{dead}:setIamPolicy", {"policy": publisher})
        assert attempt() == 8, "one of the two grants is not enough"
        subscriber = {"bindings": [{"role": "roles/pubsub.subscriber", "members": agent}]}
        call("POST", f"{sub}:setIamPolicy", {"policy": subscriber})
        assert attempt() == 0
        assert {name: state["unacked"] for name, state in plugin.backlog().items()} == {sub: 0, dead_sub: 1}
        call("DELETE", sub)
        with pytest.raises(RestError, match="not found"):
            call("POST", f"{sub}:pull", {"maxMessages": 1})


def test_a_client_that_leaves_takes_the_next_message_with_it_until_the_deadline(tmp_path: Path) -> None:
    topic, sub = f"{BASE}/topics/t", f"{BASE}/subscriptions/s"

    def pull() -> Any:
        return gcp.call("pubsub", "POST", f"v1/{sub}:pull", {"maxMessages": 1})

    with RunningGcp(tmp_path, time_factor=5) as gcp:  # a pull waits for two seconds
        site, before = gcp.site, gcp.site.clock.now()
        gcp.call("pubsub", "PUT", f"v1/{topic}", {})
        gcp.call("pubsub", "PUT", f"v1/{sub}", {"topic": topic, "ackDeadlineSeconds": 40})
        leaving = http.client.HTTPConnection("127.0.0.1", gcp.port, timeout=SECONDS)
        headers = {"Authorization": f"Bearer {site.tokens.issue(OWNER)['access_token']}"}
        leaving.request("POST", f"/pubsub/v1/{sub}:pull", b'{"maxMessages": 1}', headers)
        process = site.plugin(PubSubPlugin).process
        while not process.control()["counters"]["pulls"]:
            assert site.clock.now() - before < SECONDS * 5
        leaving.close()
        gcp.call("pubsub", "POST", f"v1/{topic}:publish", {"messages": [{"attributes": {"a": "b"}}]})
        assert pull() == {}
        begun = site.clock.now()
        while not (answer := pull()):
            assert site.clock.now() - begun < SECONDS * 5
        assert answer["receivedMessages"][0]["message"]["attributes"] == {"a": "b"}


def test_the_process_ends_with_its_parent_however_that_ends() -> None:
    program = "from localcloud.gcp.pubsub import PubSub; p = PubSub(); print(p.url, flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        url = parent.stdout.readline().strip()
        assert _answers(url)
        parent.kill()
    until(lambda: not _answers(url))


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}_control", timeout=SECONDS).close()
    except OSError:
        return False
    return True
