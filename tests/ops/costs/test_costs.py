"""Bills beside estimates, on answers in the shape of the clouds'. Not proven: that an account's bill carries the tags,
and that Cost Explorer and the export name them so."""

import datetime
import json
import re
from typing import Any

import boto3
import click
import pytest
import requests
from botocore.stub import Stubber
from click.testing import CliRunner

from localcloud.aws import iam
from ops.costs import aws, bill, command, gcp
from ops.costs.bill import BillError, Cost, Kept, after, months
from ops.prices.region import today
from ops.project import ROOT

MONTH = datetime.date(2026, 10, 1)
STACKS = {"vision-prod": ("vision", "prod")}


def cost(team: str = "vision", environment: str = "prod", amount: float = 100.0, **more: Any) -> Cost:
    values = {"month": MONTH, "credits": 0.0, "currency": "USD", **more}
    return Cost(team=team, environment=environment, amount=amount, **values)


# ---- AWS -----------------------------------------------------------------------------------------------------------


def group(team: str, environment: str, usd: str, unit: str = "USD") -> dict[str, Any]:
    keys = [f"tidemill:team${team}", f"tidemill:environment${environment}"]
    return {"Keys": keys, "Metrics": {"UnblendedCost": {"Amount": usd, "Unit": unit}}}


def page(*groups: dict[str, Any], start: str = "2026-10-01", more: str = "") -> dict[str, Any]:
    period = {"Start": start, "End": "2026-11-01"}
    answer = {"ResultsByTime": [{"TimePeriod": period, "Total": {}, "Groups": list(groups), "Estimated": False}]}
    return answer | ({"NextPageToken": more} if more else {})


class Explorer:
    """A stubbed Cost Explorer; it checks each question against the API's model."""

    def __init__(self, *pages: dict[str, Any] | str) -> None:
        self.client = boto3.client("ce", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        self.stub = Stubber(self.client)
        self.asked: list[dict[str, Any]] = []
        self.client.meta.events.register(
            "provide-client-params.ce.GetCostAndUsage", lambda params, **_: self.asked.append(dict(params))
        )
        for answer in pages:
            if isinstance(answer, str):
                self.stub.add_client_error("get_cost_and_usage", answer)
            else:
                self.stub.add_response("get_cost_and_usage", answer)
        self.stub.activate()


def test_cost_explorer_is_asked_by_tags_page_by_page_and_for_credits_apart():
    explorer = Explorer(
        page(group("vision", "prod", "12.5"), more="second"),
        page(group("vision", "prod", "0.5"), group("", "", "7")),
        page(group("vision", "prod", "-3")),
    )
    found = aws.CostExplorer(explorer.client).costs(MONTH, MONTH)
    assert found == [cost(amount=13.0, credits=-3.0), cost("", "", 7.0)]
    first, second, third = explorer.asked
    assert first["TimePeriod"] == {"Start": "2026-10-01", "End": "2026-11-01"}
    assert [each["Key"] for each in first["GroupBy"]] == ["tidemill:team", "tidemill:environment"]
    assert second["NextPageToken"] == "second"
    assert first["Filter"] == {"Not": third["Filter"]}
    assert "NextPageToken" not in third
    explorer.stub.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("answer", "says"),
    [("AccessDeniedException", "needs ce:GetCostAndUsage"), (page({"Keys": ["a"]}), "another shape")],
)
def test_a_bill_that_is_not_told_says_why(answer, says):
    with pytest.raises(BillError, match=says):
        aws.CostExplorer(Explorer(answer).client).costs(MONTH, MONTH)


def test_an_answer_that_goes_round_is_not_paid_again():
    again = page(group("vision", "prod", "1"), more="second")
    explorer = Explorer(again, again, again)
    with pytest.raises(BillError, match="leads back to its page 'second'"):
        aws.CostExplorer(explorer.client).costs(MONTH, MONTH)
    assert len(explorer.asked) == 2


def policy() -> iam.Document:
    """The policy that the page tells people to attach."""
    (text,) = re.findall(r"```json\n(\{.+?\})\n```", (ROOT / "docs" / "money.md").read_text(), re.DOTALL)
    return iam.parse(text)


@pytest.mark.parametrize(
    ("action", "resource", "may"),
    [
        ("ce:GetCostAndUsage", "*", True),
        ("ce:GetCostForecast", "*", False),
        ("ce:UpdateCostAllocationTagsStatus", "*", False),
        ("budgets:ModifyBudget", "arn:aws:budgets::123456789012:budget/vision-prod", False),
        ("s3:GetObject", "arn:aws:s3:::vision-prod-store/jobs/a", False),
    ],
)
def test_the_documented_policy_reads_the_bill_and_nothing_else(action, resource, may):
    assert (iam.refusal(iam.Query(action, resource), [policy()]) is None) == may


# ---- GCP -----------------------------------------------------------------------------------------------------------


def cells(*values: str | None) -> dict[str, Any]:
    return {"f": [{"v": value} for value in values]}


class Query:
    """A session that answers queries of BigQuery, and what it was asked."""

    def __init__(self, *answers: Any, status: int = 200) -> None:
        self.answers, self.status = list(answers), status
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def request(self, method: str, url: str, timeout: float, **more: Any) -> requests.Response:
        self.asked.append((method, url, more))
        answer = requests.Response()
        answer.status_code, answer._content = self.status, json.dumps(self.answers.pop(0)).encode()
        return answer


REFERENCE = {"projectId": "billing", "jobId": "j1", "location": "EU"}
TABLE = "billing.export.gcp_billing_export_v1_012345_6789AB_CDEF01"


def test_the_export_is_read_by_labels_when_it_is_done_and_page_by_page():
    row = cells("202610", "EUR", "vision", "prod", "12.5", "-0.5")
    session = Query(
        {"jobComplete": False, "jobReference": REFERENCE},
        {"jobComplete": True, "jobReference": REFERENCE, "rows": [row], "pageToken": "more"},
        {"jobComplete": True, "jobReference": REFERENCE, "rows": [cells("202610", "EUR", None, None, "7", "0")]},
    )
    found = gcp.BillingExport(TABLE, ["vision-prod"], session).costs(MONTH, MONTH)
    assert found == [
        cost(amount=12.5, credits=-0.5, currency="EUR"),
        cost("", "", 7.0, currency="EUR"),
    ]
    (posted, first), (got, waited), (_, paged) = [(method, more) for method, _, more in session.asked]
    assert (posted, got) == ("POST", "GET")
    assert "pageToken" not in waited["params"]
    assert paged["params"]["pageToken"] == "more"
    assert paged["params"]["location"] == "EU"
    body = first["json"]
    values = {each["name"]: each["parameterValue"] for each in body["queryParameters"]}
    assert (values["first"]["value"], values["last"]["value"]) == ("202610", "202610")
    assert values["team"]["value"] == "tidemill-team"
    assert values["projects"] == {"arrayValues": [{"value": "vision-prod"}]}
    assert f"`{TABLE}`" in body["query"]
    assert int(body["maximumBytesBilled"]) == gcp.MOST_BYTES


def test_a_dry_run_tells_what_asking_costs():
    session = Query({"jobComplete": True, "totalBytesProcessed": str(3 << 30)})
    assert "at most 3.00 GiB" in gcp.BillingExport(TABLE, ["p"], session).price(MONTH, MONTH)
    assert session.asked[0][2]["json"]["dryRun"] is True


@pytest.mark.parametrize("table", ["export", "a.b", "a.b.c`; DROP TABLE x", "a.b.c.d", ""])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(click.UsageError, match=r"write project\.dataset\.table"):
        gcp.BillingExport(table, [])


@pytest.mark.parametrize(
    ("answer", "status", "says"), [({"error": "no"}, 403, "403 .*lists the roles"), ({}, 200, "another shape")]
)
def test_an_export_that_is_not_told_says_why(answer, status, says):
    with pytest.raises(BillError, match=says):
        gcp.BillingExport(TABLE, ["p"], Query(answer, status=status)).costs(MONTH, MONTH)


# ---- months, kept answers -------------------------------------------------------------------------------------------


def test_months_go_over_the_year():
    assert [f"{month:%Y-%m}" for month in months(3, datetime.date(2026, 1, 31))] == ["2025-11", "2025-12", "2026-01"]
    assert after(datetime.date(2026, 12, 1)) == datetime.date(2027, 1, 1)
    assert after(datetime.date(2026, 2, 1)) == datetime.date(2026, 3, 1)


def test_an_answer_is_kept_for_six_hours(tmp_path):
    kept = Kept("aws", tmp_path)
    assert kept.read() is None
    kept.write([cost(credits=-1.0)])
    assert kept.read() == [cost(credits=-1.0)]
    assert (tmp_path / "aws.json").stat().st_mode & 0o777 == 0o600, "a bill is its payer's"
    written = (tmp_path / "aws.json").stat().st_mtime
    assert Kept("aws", tmp_path, clock=lambda: written + bill.KEPT_SECONDS + 1).read() is None
    (tmp_path / "aws.json").write_text('[{"month": "2026-10-01"}]')
    assert kept.read() is None
    Kept("aws", tmp_path / "aws.json").write([cost()])
    assert Kept("aws", tmp_path / "aws.json").read() is None, "a folder that cannot be made loses no paid answer"


# ---- the table ------------------------------------------------------------------------------------------------------


def rows(*found: Cost) -> list[command.Row]:
    return command.compare(found, {name: command._estimated(name) for name in STACKS}, STACKS)


def test_a_team_stands_beside_its_estimate_and_the_rest_does_not_vanish():
    vision, strange, half, untagged = rows(
        cost("", "", 5.0), cost("zoo", "dev", 1.0), cost("zoo", "", 2.0), cost(), cost("", "prod", 6.0)
    )[:4]
    assert (vision.team, vision.actual, vision.stacks) == ("vision", 100.0, ("vision-prod",))
    estimate = command._estimated("vision-prod")
    assert estimate is not None
    assert vision.idle == pytest.approx(estimate.idle.usd_high, abs=0.01)
    assert vision.most == pytest.approx(estimate.idle.usd_high + estimate.burn.usd_high * 31 * 24, abs=0.01)
    assert (half.team, half.environment, strange.environment, strange.most) == ("zoo", "dev", "", None)
    assert (untagged.team, untagged.environment, untagged.actual) == ("untagged", "", 11.0)


def test_no_estimate_stands_beside_another_currency():
    (row,) = rows(cost(currency="EUR"))
    assert (row.idle, row.most) == (None, None)
    told = command.notes("aws", [cost(currency="EUR")], [row], [MONTH], datetime.date(2026, 11, 3))
    assert "Estimates are in USD; costs in EUR are not compared with them." in told


def said(*found: Cost, wanted: tuple[datetime.date, ...] = (MONTH,), day: str = "2026-11-03") -> str:
    return "\n".join(command.notes("aws", found, rows(*found), wanted, datetime.date.fromisoformat(day)))


def test_what_the_figures_do_not_show_is_a_sentence():
    assert said() == "The bill has no costs from 2026-10 to 2026-10."
    assert "2026-10 is not over: the bill has 11 to 12 of its 31 days" in said(cost(), day="2026-10-12")
    assert "is not over" not in said(cost())
    assert "before credits and refunds" in said(cost(credits=-5.0))
    alone = said(cost("", ""))
    assert "No cost carries a team." in alone
    assert "activate tidemill:team and tidemill:environment" in alone
    assert "activate" not in said(cost())
    assert "No stack file belongs to zoo-dev." in said(cost("zoo", "dev"))
    assert "No stack file belongs to vision-(no environment)." in said(cost("vision", ""))
    november = datetime.date(2026, 11, 1)
    assert "The bill has no costs of 2026-11." in said(cost(), wanted=(MONTH, november), day="2026-11-01")


# ---- the command ----------------------------------------------------------------------------------------------------


class Told:
    def __init__(self, *found: Cost, refused: str = "") -> None:
        self.found, self.refused, self.asked = list(found), refused, 0

    def price(self, first: datetime.date, last: datetime.date) -> str:
        return "Asking costs 0.02 USD."

    def costs(self, first: datetime.date, last: datetime.date) -> list[Cost]:
        self.asked += 1
        if self.refused:
            raise BillError(self.refused)
        return self.found


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.setattr(bill, "FOLDER", tmp_path)

    def run(source: Told, *options: str, typed: str = "") -> Any:
        monkeypatch.setattr(command, "_source", lambda *_: source)
        return CliRunner().invoke(command.costs, ["--cloud", "aws", *options], input=typed)

    return run


def this_month() -> datetime.date:
    return today().replace(day=1)


def test_the_price_of_asking_is_said_before_and_the_answer_is_kept(ask):
    source = Told(cost(month=this_month()))
    refused = ask(source, typed="n\n")
    assert (refused.exit_code, source.asked) == (1, 0)
    assert "Asking costs 0.02 USD." in refused.output
    told = ask(source, typed="y\n")
    assert (told.exit_code, source.asked) == (0, 1)
    assert "vision  prod" in told.output
    again = ask(source)
    assert (again.exit_code, source.asked) == (0, 1)
    assert "of the last six hours" in again.output
    assert ask(source, "--again", "--yes").exit_code == 0
    assert source.asked == 2


def test_a_tag_neither_steers_the_terminal_nor_forges_a_row(ask):
    """Whoever may tag a resource chooses what the payer reads."""
    hostile = cost("a\x1b]0;x\x07\x1b[31mb\n2026-01  vision", "p\u202ed", month=this_month())
    said = ask(Told(hostile), "--yes").stdout
    assert not set("\x1b\x07\u202e") & set(said)
    assert [line for line in said.splitlines() if line.startswith("2026-01 ")] == []


def test_json_has_a_row_for_each(ask):
    answer = ask(Told(cost(month=this_month()), cost("", "", 3.0, month=this_month())), "--yes", "--json")
    found = json.loads(answer.stdout)
    assert [(row["team"], row["actual"]) for row in found] == [("vision", 100.0), ("untagged", 3.0)]


def test_a_refusal_exits_3_and_is_not_kept(ask):
    source = Told(refused="AccessDenied")
    assert ask(source, "--yes").exit_code == 3
    assert ask(source, "--yes").exit_code == 3
    assert source.asked == 2


def test_the_table_of_an_export_is_needed_on_gcp_and_wrong_on_aws():
    told = CliRunner().invoke(command.costs, ["--cloud", "gcp"])
    assert (told.exit_code, "--table is missing" in told.output) == (2, True)
    told = CliRunner().invoke(command.costs, ["--cloud", "aws", "--table", TABLE])
    assert (told.exit_code, "--table is of a billing export" in told.output) == (2, True)
    told = CliRunner().invoke(command.costs, ["--cloud", "gcp", "--table", "x"])
    assert (told.exit_code, "write project.dataset.table" in told.output) == (2, True)
