"""What AWS is asked, and what is made of its answers. Whether its scores are right, only capacity itself would tell."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from tests.slow_capacity import SlowAws, SlowClient
from tidemill import machines
from tidemill.advice.cache import Cache
from tidemill.advice.sources import ApiOffError, LiveAnswer, NoAnswerError, NoPermissionError, Question, ThrottledError
from tidemill.clouds.aws.advice import AwsSource
from tidemill.errors import CallerError

ACCOUNT = "123456789012"
REGIONS = ("us-west-2", "us-east-1")
FORTY = tuple(each.type for each in machines.table("aws").types if each.type.startswith(("c6i", "c7i", "m7i", "r7i")))[
    :40
]
QUESTION = Question(REGIONS, FORTY, 400)


def refusing(code: str, *operations: str) -> SlowAws:
    """AWS that refuses some operations."""
    error = ClientError({"Error": {"Code": code, "Message": "so it is"}}, "Operation")
    return SlowAws(0, lambda operation, region: error if operation in operations else None)


def ask(aws: SlowAws, folder: Path, question: Question = QUESTION, **options: float) -> LiveAnswer:
    return AwsSource("us-west-2", ACCOUNT, aws, cache=Cache(folder), **options).ask(question)  # type: ignore[arg-type]


def test_two_regions_and_forty_types_take_few_calls_side_by_side(tmp_path: Path):
    aws = SlowAws(0.3)
    answer = ask(aws, tmp_path)
    assert aws.most > 1
    assert len(FORTY) == 40
    assert aws.calls.total() <= 12
    assert answer.gaps == ()
    assert {(each.region, each.zone, each.value) for each in answer.scores} == {(region, None, 7) for region in REGIONS}
    assert {(each.region, each.type) for each in answer.prices} == {
        (region, kind) for region in REGIONS for kind in FORTY
    }
    assert {each.value for each in answer.quotas} == {640.0}


def test_a_question_with_the_same_meaning_asks_nothing(tmp_path: Path):
    first, again = SlowAws(0), SlowAws(0)
    told = ask(first, tmp_path)
    shuffled = Question(REGIONS[::-1], (*FORTY[::-1], FORTY[0]), 400)
    assert ask(again, tmp_path, shuffled).scores == told.scores
    assert again.calls.total() == 0


def test_a_repeated_question_is_the_same_configuration_of_scores(tmp_path: Path):
    """What AWS counts is the request. With an own cache each, both ask."""
    first, again = SlowAws(0), SlowAws(0)
    ask(first, tmp_path / "a")
    ask(again, tmp_path / "b", Question(REGIONS[::-1], FORTY[::-1], 400))
    scores = [[wanted for name, _, wanted in aws.asked if name == "GetSpotPlacementScores"] for aws in (first, again)]
    assert scores[0] == scores[1]


def test_answers_belong_to_their_account(tmp_path: Path):
    ask(SlowAws(0), tmp_path)
    other = SlowAws(0)
    AwsSource("us-west-2", "2" * 12, other, cache=Cache(tmp_path)).ask(QUESTION)  # type: ignore[arg-type]
    assert other.calls["GetSpotPlacementScores"] == 1


def test_without_an_account_answers_belong_to_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []
    for key in ("one", "one", "other"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        aws = SlowAws(0)
        AwsSource("us-west-2", "", aws, cache=Cache(tmp_path)).ask(QUESTION)  # type: ignore[arg-type]
        asked.append(aws.calls["GetSpotPlacementScores"])
    assert asked == [1, 0, 1]


def test_scores_of_one_zone_have_the_accounts_names_of_zones(tmp_path: Path):
    aws = SlowAws(0)
    answer = ask(aws, tmp_path, Question(("us-west-2",), FORTY[:3], 64, one_zone=True))
    assert {(each.zone_id, each.zone) for each in answer.scores} == {
        (f"us-west-2-az{number}", f"us-west-2{letter}") for number, letter in enumerate("abcd")
    }
    assert aws.calls["DescribeAvailabilityZones"] == 0  # prices have both


def test_zones_are_named_without_prices_too(tmp_path: Path):
    aws = refusing("UnauthorizedOperation", "DescribeSpotPriceHistory")
    answer = ask(aws, tmp_path, Question(("us-west-2",), FORTY[:3], 64, one_zone=True))
    assert {each.zone for each in answer.scores} == {f"us-west-2{letter}" for letter in "abcd"}


def test_a_price_has_its_range(tmp_path: Path):
    price = ask(SlowAws(0), tmp_path, Question(("us-west-2",), FORTY[:1], 64)).prices[0]
    assert price.week
    assert price.quarter
    assert price.quarter.low <= price.week.low <= price.value <= price.week.high <= price.quarter.high  # type: ignore[operator]
    assert price.week.days == 7
    assert 89 <= price.quarter.days <= 90
    assert price.unit == "USD/hour"
    assert price.source == "ec2:DescribeSpotPriceHistory"


def test_only_types_that_the_tables_lack_are_asked_for(tmp_path: Path):
    aws = SlowAws(0)
    answer = ask(aws, tmp_path, Question(("us-west-2",), ("c7i.large", "x99.large", "none.large"), 64))
    wanted = next(wanted for name, _, wanted in aws.asked if name == "DescribeInstanceTypeOfferings")
    assert wanted["Filters"][0]["Values"] == ["none.large", "x99.large"]
    assert {(each.type, each.zone, each.value) for each in answer.offered} == {
        ("none.large", None, False),
        ("x99.large", "us-west-2a", True),
    }


def test_a_denied_call_names_the_action_and_who_grants_it(tmp_path: Path):
    answer = ask(refusing("UnauthorizedOperation", "GetSpotPlacementScores", "DescribeSpotPriceHistory"), tmp_path)
    assert answer.scores == answer.prices == ()
    assert len(answer.quotas) == 2
    denied = {gap.source: gap for gap in answer.gaps}
    assert set(denied) == {"ec2:GetSpotPlacementScores", "ec2:DescribeSpotPriceHistory"}
    for action, gap in denied.items():
        assert isinstance(gap.error, NoPermissionError)
        assert gap.error.what == action
        assert gap.error.owner
        assert "advise: true" in str(gap)


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "MaxConfigLimitExceeded"])
def test_a_throttled_call_shows_the_old_answer_with_its_age(tmp_path: Path, code: str):
    clock = [time.time() - 3600]
    source = AwsSource("us-west-2", ACCOUNT, SlowAws(0), cache=Cache(tmp_path, lambda: clock[0]))  # type: ignore[arg-type]
    told = source.ask(QUESTION)
    clock[0] += 3600
    throttled = refusing(code, "GetSpotPlacementScores")
    answer = AwsSource("us-west-2", ACCOUNT, throttled, cache=Cache(tmp_path, lambda: clock[0])).ask(QUESTION)  # type: ignore[arg-type]
    assert answer.scores == told.scores
    assert [type(gap.error) for gap in answer.gaps] == [ThrottledError]
    assert answer.gaps[0].at == told.scores[0].at
    assert f"{told.scores[0].at:%Y-%m-%d %H:%M} UTC" in str(answer.gaps[0])


def test_without_boto3_nothing_can_be_asked_but_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told = ask(SlowAws(0), tmp_path)
    for name in ("boto3", "botocore", "botocore.exceptions", "botocore.config"):
        monkeypatch.setitem(sys.modules, name, None)
    assert AwsSource("us-west-2", ACCOUNT, cache=Cache(tmp_path)).ask(QUESTION) == told
    with pytest.raises(CallerError) as error:
        AwsSource("us-west-2", ACCOUNT, cache=Cache(tmp_path / "empty")).ask(QUESTION)
    assert error.value.command == "pip install 'tidemill[aws]'"


def test_without_a_login_one_look_for_it_is_enough(tmp_path: Path):
    aws = SlowAws(0)
    aws.login = None
    answer = ask(aws, tmp_path)
    assert (aws.looked, aws.calls.total()) == (1, 0)
    assert {type(gap.error) for gap in answer.gaps} == {NoAnswerError}
    assert all("no AWS login" in str(gap) and "aws sso login" in str(gap) for gap in answer.gaps)


def test_a_region_that_is_not_enabled_is_a_gap_of_that_region(tmp_path: Path):
    error = ClientError({"Error": {"Code": "OptInRequired", "Message": "no"}}, "Operation")
    aws = SlowAws(0, lambda operation, region: error if region == "us-east-1" else None)
    answer = ask(aws, tmp_path)
    assert {each.region for each in answer.prices} == {"us-west-2"}
    assert {(gap.region, type(gap.error)) for gap in answer.gaps} == {("us-east-1", ApiOffError)}


def test_a_network_that_breaks_costs_only_what_it_carried(tmp_path: Path):
    error = ConnectTimeoutError(endpoint_url="https://ec2.us-east-1.amazonaws.com")
    aws = SlowAws(0, lambda operation, region: error if aws.calls.total() > 4 else None)
    answer = ask(aws, tmp_path)
    assert {type(gap.error) for gap in answer.gaps} == {NoAnswerError}
    assert len(answer.gaps) < 8  # the same reason is told once


def test_a_cloud_that_never_answers_ends_in_time(tmp_path: Path):
    answer = ask(SlowAws(30), tmp_path, seconds=0.3)
    assert answer.scores == answer.prices == answer.quotas == ()
    assert {type(gap.error) for gap in answer.gaps} == {NoAnswerError}


def test_an_answer_that_makes_no_sense_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SlowClient, "get_spot_placement_scores", lambda self, **wanted: {"SpotPlacementScores": [{}]})
    answer = ask(SlowAws(0), tmp_path)
    assert [(gap.source, type(gap.error)) for gap in answer.gaps] == [("ec2:GetSpotPlacementScores", NoAnswerError)]


def test_chinas_regions_are_asked_themselves(tmp_path: Path):
    aws = SlowAws(0)
    AwsSource("cn-north-1", ACCOUNT, aws, cache=Cache(tmp_path)).ask(  # type: ignore[arg-type]
        Question(("cn-north-1", "cn-northwest-1"), FORTY, 400)
    )
    asked = [(region, wanted["RegionNames"]) for name, region, wanted in aws.asked if name == "GetSpotPlacementScores"]
    assert sorted(asked) == [("cn-north-1", ["cn-north-1"]), ("cn-northwest-1", ["cn-northwest-1"])]


def test_more_than_ten_regions_are_scored_in_tens(tmp_path: Path):
    aws = SlowAws(0)
    regions = tuple(f"eu-west-{number}" for number in range(1, 13))
    ask(aws, tmp_path, Question(regions, FORTY[:1], 8))
    asked = [len(wanted["RegionNames"]) for name, _, wanted in aws.asked if name == "GetSpotPlacementScores"]
    assert sorted(asked) == [2, 10]
