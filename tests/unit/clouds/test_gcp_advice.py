"""What GCP is asked, and what is made of its answers. Whether they are right, only capacity itself would tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.slow_capacity import SlowGoogle
from tidemill.advice.cache import Cache
from tidemill.advice.sources import (
    ApiOffError,
    LiveAnswer,
    NoAnswerError,
    NoPermissionError,
    Question,
    RecommendedMachines,
    ThrottledError,
)
from tidemill.clouds.gcp.advice import GcpSource
from tidemill.clouds.gcp.session import BusyError, DeniedError, DisabledError
from tidemill.errors import CloudError

TYPES = ("n2-standard-8", "n2d-standard-8", "c3-standard-8", "n2-standard-16", "e2-standard-8", "n1-standard-8+1t4")
QUESTION = Question(("us-central1", "europe-west1"), TYPES, 400)


def ask(google: SlowGoogle, folder: Path, question: Question = QUESTION) -> LiveAnswer:
    return GcpSource("a-project", google, cache=Cache(folder)).ask(question)


def refusing(error: Exception) -> SlowGoogle:
    return SlowGoogle(0, lambda action, region: error)


def test_a_region_is_asked_once_about_all_types(tmp_path: Path):
    google = SlowGoogle(0.3)
    answer = ask(google, tmp_path)
    assert google.most > 1
    assert google.calls == {"compute.advice.capacity": 2, "compute.advice.capacityHistory": 10}
    bodies = [body for action, region, body in google.asked if action.endswith("capacity") and region == "us-central1"]
    assert bodies == [
        {
            "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
            "instanceFlexibilityPolicy": {
                "instanceSelections": {
                    "gpus-0": {"machineTypes": sorted(TYPES[:5])},
                    "gpus-1": {
                        "machineTypes": ["n1-standard-8"],
                        "guestAccelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}],
                    },
                }
            },
            "distributionPolicy": {"targetShape": "ANY"},
            "size": 50,
        }
    ]
    assert {(each.region, each.value, each.uptime, each.machines) for each in answer.capacity} == {
        (region, 0.8, 600.0, 50) for region in QUESTION.regions
    }
    assert answer.capacity[0].placed == (RecommendedMachines(f"{answer.capacity[0].region}-a", "c3-standard-8", 50),)
    assert {each.value for each in answer.reclaims} == {0.1}
    assert answer.gaps == ()


def test_a_price_has_its_range(tmp_path: Path):
    price = ask(SlowGoogle(0), tmp_path).prices[0]
    assert price.value == 0.09
    assert price.week
    assert price.quarter
    assert (price.week.low, price.week.high, price.week.days) == (0.09, 0.09, 7)
    assert price.quarter.days == pytest.approx(30, abs=0.1)
    assert price.zone is None


def test_one_zone_is_another_shape(tmp_path: Path):
    google = SlowGoogle(0)
    ask(google, tmp_path, Question(("us-central1",), TYPES, 400, one_zone=True))
    body = next(body for action, _, body in google.asked if action.endswith("capacity"))
    assert body["distributionPolicy"] == {"targetShape": "ANY_SINGLE_ZONE"}


def test_a_repeated_question_asks_nothing(tmp_path: Path):
    told, again = ask(SlowGoogle(0), tmp_path), SlowGoogle(0)
    assert ask(again, tmp_path, Question(QUESTION.regions[::-1], TYPES, 400)).capacity == told.capacity
    assert again.calls.total() == 0


def test_a_type_that_a_region_does_not_have_does_not_spoil_the_others(tmp_path: Path):
    google = SlowGoogle(0)
    ask(google, tmp_path, Question(("us-central1",), ("n2-standard-8", "n2-standard-9"), 400))
    body: dict[str, Any] = next(body for action, _, body in google.asked if action.endswith("capacity"))
    assert body["instanceFlexibilityPolicy"]["instanceSelections"] == {"gpus-0": {"machineTypes": ["n2-standard-8"]}}


@pytest.mark.parametrize(
    ("error", "kind", "fix"),
    [
        (DeniedError("it is denied."), NoPermissionError, "advise: true"),
        (
            DisabledError("compute.googleapis.com is off.", command="gcloud services enable compute.googleapis.com"),
            ApiOffError,
            "gcloud services enable",
        ),
        (BusyError("the quota is used up."), ThrottledError, "some minutes"),
        (CloudError("no network.", "Check the network."), NoAnswerError, "Check the network"),
        (OSError("something else"), NoAnswerError, "report it"),
    ],
)
def test_a_refusal_is_a_gap_that_says_what_to_do(tmp_path: Path, error: Exception, kind: type, fix: str):
    answer = ask(refusing(error), tmp_path)
    assert answer.capacity == answer.reclaims == answer.prices == ()
    assert {gap.source for gap in answer.gaps} == {"compute.advice.capacity", "compute.advice.capacityHistory"}
    assert {type(gap.error) for gap in answer.gaps} == {kind}
    assert all(fix in str(gap) for gap in answer.gaps)


def test_what_google_leaves_out_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SlowGoogle, "call", lambda self, *args, **more: {})
    answer = ask(SlowGoogle(0), tmp_path)
    assert {(each.value, each.uptime, each.placed) for each in answer.capacity} == {(None, None, ())}
    assert {(each.value, each.days) for each in answer.reclaims} == {(None, 0)}
    assert answer.prices == answer.gaps == ()


def test_without_a_project_nothing_is_asked(tmp_path: Path):
    google = SlowGoogle(0)
    answer = GcpSource("", google, cache=Cache(tmp_path)).ask(QUESTION)
    assert google.calls.total() == 0
    assert "--pipeline" in str(answer.gaps[0])
