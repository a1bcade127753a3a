"""`tidemill up` and `down` on GCP, from the installed distributions.

The engine reaches its state by a forwarder that adds the owner's login. Not proven: secrets under a key of Cloud KMS,
which the engine's client reaches at Google only; that Google lets an owner do all this; and its pace, of one write of
the state per second.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcloud.cloud import GcpCloud
from tests.e2e.gcp import IDLE_SECONDS, SPOT_OFF_SECONDS, TIME_FACTOR
from tests.e2e.personal.person import EMAIL, Person, changes, installed
from tests.engine.backends.google_backend import emulator
from tests.engine.google import Google

PLACE = ("--cloud", "gcp", "--name", "ada")
STAYS = ("/operations/", "/keyRings/", "/services/", "/cmekSettings", "/serviceAccount", "/serviceIdentities/")
"""Records of past actions, key rings, which are never deleted, and what belongs to the project."""


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    fast = {"time_factor": TIME_FACTOR, "object_writes_per_second": 1000, "spot_off_seconds": SPOT_OFF_SECONDS}
    with GcpCloud(tmp_path_factory.mktemp("localcloud"), **fast) as running:
        running.control("compute/settings", environment={"TIDEMILL_IDLE_SECONDS": str(IDLE_SECONDS)})
        yield Google(running)


@pytest.fixture(scope="module")
def before(google) -> set[str]:
    return left(google)


@pytest.fixture(scope="module")
def ada(google, before, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    program = installed(tmp_path_factory.mktemp("installed"))
    with emulator(google) as storage:
        env = {**google.cloud.env, "STORAGE_EMULATOR_HOST": storage}
        yield Person(program, env, tmp_path_factory.mktemp("ada"))


def left(google: Google) -> set[str]:
    """Everything in the project that a `down` must delete."""
    return {name for name in google.names() if not any(part in name for part in STAYS)}


def test_up_makes_it_and_another_one_changes_nothing(ada, google):
    first = ("--email", EMAIL, "--billing-account", "012345-6789AB-CDEF01")
    assert "tidemill submit" in ada.tidemill("up", *PLACE, "--yes", *first).splitlines()[-1]
    standing = left(google)
    assert changes(ada.tidemill("up", *PLACE, "--yes", "--json")) == {}
    assert left(google) == standing


def test_a_job_runs(ada, tmp_path):
    ada.count_bytes(tmp_path)


def test_down_leaves_nothing(ada, google, before):
    ada.tidemill("down", *PLACE, "--confirm", "ada-gcp-personal")
    assert left(google) - before == set()
    assert "There is no ada-gcp-personal" in ada.tidemill("down", *PLACE, "--confirm", "ada-gcp-personal")
