"""A worker's settings from its environment, and what programs see of it."""

import pytest

import tidemill
from tidemill.errors import CallerError
from tidemill.worker.settings import Settings, child_environment

BASE = {"TIDEMILL_STORE": "gs://b", "TIDEMILL_SUBSCRIPTION": "projects/p/subscriptions/s"}


def test_defaults():
    settings = Settings.read(BASE)
    assert (settings.notice, settings.cache, settings.machine_until, settings.log) == (None, None, None, None)
    assert (settings.poll_seconds, settings.drain_seconds, settings.idle_seconds) == (2, 15, 600)


@pytest.mark.parametrize("oldest", ["", "0.0.9", tidemill.__version__])
def test_a_worker_that_is_new_enough_starts(oldest):
    assert Settings.read({"TIDEMILL_STORE": "s3://b", "TIDEMILL_MIN_WORKER": oldest}).store == "s3://b"


def test_a_program_sees_nothing_of_ours():
    env = {"PATH": "/bin", "TIDEMILL_STORE": "s3://b", "TIDEMILL_JOB": "x", "AWS_BATCH_JOB_ID": "1"}
    assert child_environment(env) == {"PATH": "/bin", "AWS_BATCH_JOB_ID": "1"}


def test_what_the_tree_was_started_with_is_put_back():
    env = {
        "LC_ALL": "C.UTF-8",
        "TIDEMILL_WAS_LC_ALL": "de_DE",
        "TIDEMILL_WAS_LD_PRELOAD": "libjemalloc.so",
        "SSL_CERT_FILE": "/tidemill/certificates.pem",
        "TIDEMILL_ADDED": "SSL_CERT_FILE",
        "PATH": "/bin",
    }
    assert child_environment(env) == {"LC_ALL": "de_DE", "LD_PRELOAD": "libjemalloc.so", "PATH": "/bin"}


def test_a_machine_on_gcp():
    settings = Settings.read(
        {**BASE, "TIDEMILL_IDLE_SECONDS": "300", "TIDEMILL_MACHINE_UNTIL": "1800000000", "TIDEMILL_QUEUE": "cpu"}
    )
    assert (settings.subscription, settings.idle_seconds) == (BASE["TIDEMILL_SUBSCRIPTION"], 300)
    assert (settings.machine_until, settings.queue, settings.whole_machine) == (1_800_000_000, "cpu", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"TIDEMILL_STORE": ""},
        {"TIDEMILL_RECLAIM_POLL_SECONDS": "0"},
        {"TIDEMILL_DRAIN_SECONDS": "soon"},
        {"TIDEMILL_MIN_WORKER": "999.0.0"},
        {"TIDEMILL_SUBSCRIPTION": ""},
        {"TIDEMILL_SUBSCRIPTION": "projects/p/topics/t"},
        {"TIDEMILL_SUBSCRIPTION": "projects/p/subscriptions/s/x"},
        {"TIDEMILL_IDLE_SECONDS": "0"},
        {"TIDEMILL_IDLE_SECONDS": "-1"},
        {"TIDEMILL_IDLE_SECONDS": "never"},
        {"TIDEMILL_IDLE_SECONDS": "nan"},
        {"TIDEMILL_MACHINE_UNTIL": "-1"},
        {"TIDEMILL_MACHINE_UNTIL": "2026-11-21"},
        {"TIDEMILL_LOG": "tidemill"},
    ],
    ids=lambda wrong: "=".join(*wrong.items()),
)
def test_a_mistake_is_refused_by_its_name(wrong: dict[str, str]):
    with pytest.raises(CallerError, match=next(iter(wrong))):
        Settings.read({**BASE, **wrong})
