"""Waivers as the pack reads them, and its messages about their state. The passing of a day is simulated."""

import datetime

import pytest

from policy.judging import as_settings
from policy.rules.common import settings, waivers
from tests.policy.conftest import make
from tests.policy.judging import judge

RULE = "aws-cloudwatch-log-group-retention"
TODAY = datetime.date(2026, 11, 21)
WAIVER = {"rule": RULE, "reason": "Moves to the shared account", "until": "2027-01-31"}
GROUP = make("aws:cloudwatch/logGroup:LogGroup", "lines", {"tags": {"tidemill:team": "a", "tidemill:environment": "b"}})
STACK = make("pulumi:pulumi:Stack", "tidemill-dev", {})


@pytest.fixture(autouse=True)
def _today(monkeypatch):
    monkeypatch.setattr(waivers, "today", lambda: TODAY)


def config(*entries):
    return {"tidemill:waivers": list(entries)}


def own(*entries, resources=(GROUP, STACK)):
    """What the rules on waivers say, with the URN that they say it of."""
    found = judge(resources, config(*entries), {})
    assert all(one.urn == STACK.urn for one in found if one.rule.startswith("any-"))
    return {one.rule: one.message for one in found if one.rule.startswith("any-")}


def test_a_waiver_that_is_needed_is_not_spoken_of():
    assert own(WAIVER) == {}
    assert own(WAIVER | {"resource": "lines"}) == {}


@pytest.mark.parametrize("until", ["2027-01-31", "2027-01-31 00:00:00 +0000 UTC", "2026-11-21"])
def test_a_day_is_read_as_the_engine_hands_it_over(until):
    (waiver,), wrong = waivers.read(as_settings(config(WAIVER | {"until": until})))
    assert wrong == []
    assert waiver.until == datetime.date.fromisoformat(until[:10])
    assert waivers.covering([waiver], RULE, GROUP.urn, TODAY) is waiver


def test_a_waiver_covers_its_rule_its_resource_and_its_time_alone():
    (waiver,), _ = waivers.read(as_settings(config(WAIVER | {"resource": "lines"})))
    after = waiver.until + datetime.timedelta(1)
    assert waivers.covering([waiver], RULE, GROUP.urn, waiver.until) is waiver
    assert waivers.covering([waiver], RULE, GROUP.urn, after) is None
    assert waivers.covering([waiver], RULE, STACK.urn, TODAY) is None
    assert waivers.covering([waiver], "aws-s3-bucket-closed", GROUP.urn, TODAY) is None


def test_a_waiver_that_has_ended_is_a_violation_itself():
    (message,) = own(WAIVER | {"until": "2026-11-20"}).values()
    assert "tidemill:waivers[0]" in message
    assert "until 2026-11-20) has ended" in message
    assert "Remove it" in message


def test_a_waiver_that_waives_nothing_is_told():
    assert "waives nothing" in own(WAIVER, resources=[STACK])["any-tidemill-waiver-used"]
    assert "for other, until" in own(WAIVER | {"resource": "other"})["any-tidemill-waiver-used"]


@pytest.mark.parametrize("rule", ["aws-s3-bucket-clsed", "any-tidemill-waiver-valid"])
def test_a_waiver_of_no_rule_is_a_violation(rule):
    message = own(WAIVER | {"rule": rule})["any-tidemill-waiver-valid"]
    assert rule in message
    assert "docs/policies.md" in message


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"rule": RULE, "until": "2027-01-31"}, "reason is missing"),
        ({"rule": RULE, "reason": " ", "until": "2027-01-31"}, "reason is missing"),
        (WAIVER | {"until": "soon"}, "until is soon, not a day"),
        (WAIVER | {"resorce": "lines"}, "has the keys rule, reason, until"),
        ("aws-s3-bucket-closed", "has the keys rule, reason, until"),
    ],
)
def test_a_waiver_that_cannot_be_understood_waives_nothing_and_is_a_violation(entry, says):
    found = judge([GROUP, STACK], config(entry), {})
    assert {one.rule for one in found} == {RULE, "any-tidemill-waiver-valid"}
    (message,) = (one.message for one in found if one.rule.startswith("any-"))
    assert message.startswith("tidemill:waivers[0]: ")
    assert says in message


def test_waivers_that_are_no_list_are_a_violation():
    for given in ("{", '{"rule": "a"}'):
        found = judge([STACK], {"tidemill:waivers": given}, {})
        assert "tidemill:waivers is not a list" in found[0].message


def test_a_secret_is_not_kept():
    kept = settings.Settings({"tidemill:team": "vision", "tidemill:token": "hidden"}, ["tidemill:token"])
    assert kept.text("tidemill:team") == "vision"
    assert kept.text("tidemill:token") is None
