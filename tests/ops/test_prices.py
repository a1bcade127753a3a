"""The clients that refresh the price table, on answers in the shape of the clouds'. Not proven: that the clouds answer
so today, and that their filters and descriptions are still called so."""

import csv
import datetime
import email.utils
import gzip
import http.client
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from botocore.stub import Stubber
from click.testing import CliRunner

from components import machines
from ops import prices as command
from ops.prices import advisor, aws, gcp, pages, region, spot_page
from ops.prices.region import Answer, ChangeCount, Region
from tidemill import prices
from tidemill.prices import table

OLD = {"as_of": "2025-01-01", "source": "long ago", "usd_hour": {"c7i.large": 9.0}}


def today() -> str:
    """The day as tables have it. It may begin while the tests run."""
    return region.today().isoformat()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A separate table with one old region."""
    monkeypatch.setattr(table, "DATA", tmp_path / "data")
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "pages")
    table._region.cache_clear()
    region.write(
        Region(
            "aws",
            "us-west-2",
            {"on_demand": dict(OLD)},
            {"kms_key_month": {"usd": 9.0, **{k: OLD[k] for k in ("as_of", "source")}}},
        )
    )
    yield tmp_path / "data"
    table._region.cache_clear()


# ---- a region's file ---------------------------------------------------------------------------------------------


def test_an_answer_takes_the_place_of_its_part_alone(data):
    found = region.read("aws", "us-west-2")
    assert found.take(Answer("spot", "asked", {"c7i.large": [0.02, 0.05]})) == ChangeCount(1, 0, 0)
    found.take(Answer("interruption", "feed", {"c7i.large": [5, 10]}, as_of=datetime.date(2026, 2, 3)))
    found.take(Answer("services", "asked", {"nat_gateway_hour": 0.045}))
    region.write(found)
    price = prices.machine("aws", "us-west-2", "c7i.large")
    assert price is not None
    assert (price.on_demand, price.as_of) == (9.0, datetime.date(2025, 1, 1))
    assert price.spot is not None
    assert (price.spot.low, price.spot.high, price.spot.as_of.isoformat()) == (0.02, 0.05, today())
    taken = prices.interruption("aws", "us-west-2", "c7i.large")
    assert taken == prices.Interruption(5, 10, datetime.date(2026, 2, 3), "feed")
    assert prices.interruption("aws", "us-west-2", "c7i.xlarge") is None
    key, nat = (prices.service("aws", "us-west-2", name) for name in ("kms_key_month", "nat_gateway_hour"))
    assert key is not None
    assert nat is not None
    assert (key.usd, key.as_of.isoformat(), nat.usd, nat.as_of.isoformat()) == (9.0, "2025-01-01", 0.045, today())


@pytest.mark.parametrize("answer", [Answer("on_demand", "asked", refused="no"), Answer("on_demand", "asked")])
def test_a_refusal_or_an_empty_answer_changes_nothing(data, answer):
    found = region.read("aws", "us-west-2")
    assert found.take(answer) == ChangeCount(0, 0, 0)
    assert found.parts["on_demand"] == OLD


def test_an_answer_tells_what_it_changes(data):
    found = region.read("aws", "us-west-2")
    found.take(Answer("on_demand", "asked", {"a": 1.0, "b": 2.0, "c": 3.0}))
    assert found.take(Answer("on_demand", "asked", {"b": 2.0, "c": 4.0, "d": 5.0})) == ChangeCount(1, 1, 1)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(data, monkeypatch):
    before = (data / "aws" / "us-west-2.json.gz").read_bytes()
    monkeypatch.setattr(region, "text", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        region.write(Region("aws", "us-west-2", {}, {}))
    assert [path.name for path in (data / "aws").iterdir()] == ["us-west-2.json.gz"]
    assert (data / "aws" / "us-west-2.json.gz").read_bytes() == before


def test_what_is_shipped_is_written_as_a_refresh_writes_it():
    for path in sorted(table.DATA.glob("*/*.json.gz")):
        name = path.name.removesuffix(".json.gz")
        assert region.text(region.read(path.parent.name, name)) == gzip.decompress(path.read_bytes()).decode(), path


def test_the_same_prices_are_the_same_file(data):
    path = data / "aws" / "us-west-2.json.gz"
    before = path.read_bytes()
    region.write(region.read("aws", "us-west-2"))
    assert path.read_bytes() == before


# ---- pages -------------------------------------------------------------------------------------------------------


class Listing:
    """Three pages, and what was asked of them."""

    def __init__(self, fails: dict[str, BaseException] | None = None) -> None:
        self.asked: list[str] = []
        self.fails = fails or {}

    def page(self, token: str) -> pages.Page:
        self.asked.append(token)
        if token in self.fails:
            raise self.fails.pop(token)
        number = int(token or "0")
        return [number], str(number + 1) if number < 2 else ""


def test_an_interrupted_listing_continues_where_it_was(tmp_path):
    first, second, third = Listing({"2": ConnectionError("gone")}), Listing(), Listing()
    with pytest.raises(ConnectionError):
        pages.Pages(tmp_path / "a").rows(first.page)
    assert pages.Pages(tmp_path / "a").rows(second.page) == [0, 1, 2]
    assert (first.asked, second.asked) == (["", "1", "2"], ["2"])
    assert pages.Pages(tmp_path / "a").rows(third.page) == [0, 1, 2]
    assert third.asked == []


def test_a_listing_whose_token_has_expired_starts_again_once(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        pages.Pages(tmp_path).rows(Listing({"1": KeyboardInterrupt()}).page)
    again = Listing({"1": pages.ExpiredTokenError("old")})
    assert pages.Pages(tmp_path).rows(again.page) == [0, 1, 2]
    assert again.asked == ["1", "", "1", "2"]
    pages.Pages(tmp_path).forget()
    with pytest.raises(pages.ExpiredTokenError):
        pages.Pages(tmp_path).rows(Listing({"1": pages.ExpiredTokenError("at once")}).page)


@pytest.mark.parametrize(
    "spoilt",
    # A gzip file holds the second in which it was made, and a test's name must be the same in every process.
    [b"", b"not gzip", gzip.compress(b"[1]", mtime=0), gzip.compress(b'{"rows": "no"}', mtime=0)],
    ids=["empty", "not gzip", "a list", "other rows"],
)
def test_a_page_that_was_spoilt_is_asked_for_again(tmp_path, spoilt):
    pages.Pages(tmp_path).rows(Listing().page)
    (tmp_path / "00001.json.gz").write_bytes(spoilt)
    again = Listing()
    assert pages.Pages(tmp_path).rows(again.page) == [0, 1, 2]
    assert again.asked == ["1", "2"]


def test_pages_of_yesterday_are_no_part_of_a_listing(tmp_path):
    pages.Pages(tmp_path).rows(Listing().page)
    later, again = (tmp_path / "00000.json.gz").stat().st_mtime + pages.KEPT_SECONDS + 1, Listing()
    assert pages.Pages(tmp_path, clock=lambda: later).rows(again.page) == [0, 1, 2]
    assert again.asked == ["", "1", "2"]


def test_a_listing_that_goes_round_ends(tmp_path):
    with pytest.raises(ValueError, match="leads back"):
        pages.Pages(tmp_path).rows(lambda token: ([token], "b" if token == "a" else "a"))


# ---- AWS -----------------------------------------------------------------------------------------------------------


HEADER = (
    "SKU", "OfferTermCode", "TermType", "PricePerUnit", "Unit", "Currency", "Instance Type", "Tenancy",
    "Operating System", "License Model", "usageType", "operation", "CapacityStatus", "MarketOption",
    "Pre Installed S/W", "Region Code",
)  # fmt: skip
PLAIN = {
    "TermType": "OnDemand", "Unit": "Hrs", "Currency": "USD", "Tenancy": "Shared", "Operating System": "Linux",
    "License Model": "No License required", "operation": "RunInstances", "CapacityStatus": "Used",
    "MarketOption": "OnDemand", "Pre Installed S/W": "NA", "Region Code": "us-west-2",
}  # fmt: skip


def compute(type: str, usd: str, **more: str) -> dict[str, str]:  # noqa: A002
    row = {"SKU": f"M{type}", "Instance Type": type, "PricePerUnit": usd, "usageType": f"USW2-BoxUsage:{type}"}
    return PLAIN | row | {key.replace("_", " "): value for key, value in more.items()}


def service(usage: str, usd: str, unit: str = "Hrs", sku: str = "") -> dict[str, str]:
    bare = {"TermType": "OnDemand", "Currency": "USD", "Region Code": "us-west-2"}
    return bare | {"SKU": sku or f"S{usage}", "PricePerUnit": usd, "Unit": unit, "usageType": usage}


def listing(code: str, *rows: dict[str, str], published: str | None = None, header: tuple[str, ...] = HEADER) -> bytes:
    """A file of the price list, as AWS writes it: five lines about it, the header, and quoted values."""
    about = (
        ("FormatVersion", "v1.0"),
        ("Disclaimer", 'This pricing list is for informational purposes only, and "so on".'),
        ("Publication Date", published or f"{today()}T22:53:08Z"),
        ("Version", "20260912225308"),
        ("OfferCode", code),
    )
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [*about, header, *([row.get(column, "") for column in header] for row in rows)]
    )
    return text.getvalue().encode()


class Lists:
    """The server of the price list: files by service code, and what was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | Exception] = {}
        self.asked: list[str] = []
        self.cut = 0
        self.tells_length = True

    def open(self, url: str) -> tuple[io.BytesIO, int | None]:
        self.asked.append(url)
        (code,) = [name for name in ("AmazonEC2", "AmazonVPC", "awskms") if f"/aws/{name}/current/" in url]
        content = self.files.get(code, listing(code))
        if isinstance(content, Exception):
            raise content
        return io.BytesIO(content[: len(content) - self.cut]), len(content) if self.tells_length else None


class Session:
    """Stubbed clients in place of boto3's session."""

    def __init__(self) -> None:
        self.clients = {
            name: boto3.client(name, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
            for name in ("ec2",)
        }
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        self.regions: dict[str, str] = {}
        self.lists, self.login = Lists(), True
        for stub in self.stubs.values():
            stub.activate()

    def get_credentials(self) -> object | None:
        return object() if self.login else None

    def get_available_regions(self, service: str, partition_name: str) -> list[str]:
        return boto3.Session().get_available_regions(service, partition_name)

    def client(self, name: str, region_name: str, config: Any) -> Any:
        self.regions[name] = region_name
        return self.clients[name]

    def every_service(self, *machines: dict[str, str]) -> None:
        self.lists.files = {
            "AmazonEC2": listing(
                "AmazonEC2",
                *machines,
                service("USW2-EBS:VolumeUsage.gp3", "0.08", "GB-Mo"),
                service("USW2-NatGateway-Hours", "0.045"),
                service("USW2-NatGateway-Bytes", "0.09"),
            ),
            "AmazonVPC": listing(
                "AmazonVPC",
                service("USW2-VpcEndpoint-Hours", "0.01"),
                service("USW2-VpcEndpoint-GWLBE-Hours", "0.0125"),
                service("USW2-PublicIPv4:InUseAddress", "0.005"),
                service("USW2-PublicIPv4:IdleAddress", "0.006"),
            ),
            "awskms": listing("awskms", service("us-west-2-KMS-Keys", "1.0", "keys")),
        }

    def spot(self, *seen: tuple[str, str, str]) -> None:
        rounds = -(-len({each.type for types in machines.families("aws").values() for each in types}) // 50)
        for number in range(rounds):
            history = [
                {"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": usd, "ProductDescription": "Linux/UNIX"}
                for name, zone, usd in (seen if number == 0 else ())
            ]
            self.stubs["ec2"].add_response("describe_spot_price_history", {"SpotPriceHistory": history})


@pytest.fixture
def session():
    return Session()


PARTS = ("on_demand", "spot", "services")
FEED = {
    "ranges": [
        {"index": 0, "label": "<5%", "dots": 0, "max": 5},
        {"index": 1, "label": "5-10%", "dots": 1, "max": 11},
        {"index": 4, "label": ">20%", "dots": 4, "max": 100},
    ],
    "instance_types": {"c7i.large": {"cores": 2, "emr": True, "ram_gb": 4.0}},
    "spot_advisor": {
        "us-west-2": {
            "Linux": {"c7i.large": {"s": 59, "r": 4}, "g5.xlarge": {"s": 70, "r": 1}, "x99.large": {"s": 1, "r": 0}},
            "Windows": {"c7i.large": {"s": 9, "r": 0}},
        }
    },
}


def feed(content: Any = FEED, modified: str | None = "Tue, 03 Feb 2026 04:05:06 GMT") -> advisor.Feed:
    return advisor.Feed(lambda: (json.dumps(content).encode(), modified))


def ask(session: Any, name: str, folder: Path, parts: Any = PARTS) -> list[Answer]:
    return source(session, folder).ask(name, parts)


def source(session: Any, folder: Path, page: spot_page.Page | None = None) -> aws.Aws:
    return aws.Aws(session, feed(), folder, page, session.lists.open)


def by_part(answers: list[Answer]) -> dict[str, Answer]:
    return {answer.part: answer for answer in answers}


def test_aws_is_asked_for_machines_and_services(session, tmp_path):
    session.every_service(
        compute("c7i.large", "0.0892500000"),
        compute("x9.large", "1"),
        compute("c7i.xlarge", "0.0000000000"),
        compute("c7i.2xlarge", "0.3570000000"),
        compute("c7i.4xlarge", "9", Tenancy="Dedicated"),
        compute("c7i.4xlarge", "9", Operating_System="Windows"),
        compute("c7i.4xlarge", "9", TermType="Reserved"),
        compute("c7i.4xlarge", "9", CapacityStatus="UnusedCapacityReservation"),
        compute("c7i.4xlarge", "9", Region_Code="us-west-2-lax-1"),
    )
    session.spot(
        ("c7i.large", "us-west-2a", "0.030000"), ("c7i.large", "us-west-2b", "0.041"), ("c7i.large", "a", "0.02")
    )
    found = by_part(ask(session, "us-west-2", tmp_path))
    assert found["on_demand"].found == {"c7i.large": 0.08925, "c7i.2xlarge": 0.357}
    assert {"c7i.xlarge", "c7i.4xlarge"} <= {*found["on_demand"].missing}
    assert found["spot"].found == {"c7i.large": [0.02, 0.041]}
    assert found["services"].found == {
        "disk_gib_month": 0.08,
        "interface_endpoint_hour": 0.01,
        "kms_key_month": 1.0,
        "nat_gateway_hour": 0.045,
        "public_ipv4_hour": 0.005,
    }
    root = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws"
    assert session.lists.asked == [
        f"{root}/{code}/current/us-west-2/index.csv" for code in ("AmazonEC2", "AmazonVPC", "awskms")
    ]
    assert session.regions == {"ec2": "us-west-2"}


def test_a_service_with_two_prices_has_none_and_tiers_are_one(session, tmp_path):
    gp3 = "EBS:VolumeUsage.gp3"
    two = [service(f"USW2-{gp3}", "0.08"), service(gp3, "0.1")]
    tiers = [service("us-west-2-KMS-Keys", usd, sku="K") for usd in ("0", "1.0", "0.5")]
    session.lists.files = {"AmazonEC2": listing("AmazonEC2", *two), "awskms": listing("awskms", *tiers)}
    found = by_part(ask(session, "us-west-2", tmp_path, ["services"]))
    assert found["services"].found == {"kms_key_month": 1.0}
    assert len(found["services"].missing) == 4


def test_one_part_refused_is_told_and_the_others_stand(session, tmp_path):
    session.every_service(compute("c7i.large", "0.08925"))
    session.stubs["ec2"].add_client_error("describe_spot_price_history", "UnauthorizedOperation", "no")
    found = by_part(ask(session, "us-west-2", tmp_path))
    assert found["spot"].refused is not None
    assert "UnauthorizedOperation" in found["spot"].refused
    assert found["on_demand"].refused is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is no price list"),
        (b"<html>moved</html>", "is no price list"),
        (listing("AmazonEC2", published="2025-02-03T01:02:03Z"), "is of 2025-02-03, more than a year ago"),
        (listing("AmazonEC2", header=HEADER[:-1]), "has no column Region Code"),
        (listing("AmazonEC2", compute("c7i.large", "free")), "could not convert"),
        (OSError("HTTP Error 403: Forbidden"), "403"),
        (http.client.IncompleteRead(b"x"), "IncompleteRead"),
    ],
    ids=["empty", "a page", "last year", "another header", "no number", "forbidden", "broken"],
)
def test_a_list_that_is_old_or_none_is_a_refusal(session, tmp_path, content, says):
    session.lists.files["AmazonEC2"] = content
    (found,) = ask(session, "us-west-2", tmp_path, ["on_demand"])
    assert found.refused
    assert says in found.refused
    assert found.found == {}


@pytest.mark.parametrize(("tells_length", "says"), [(True, "ended after"), (False, "breaks off in a row")])
def test_a_list_that_is_half_there_is_a_refusal_and_is_asked_for_again(session, tmp_path, tells_length, says):
    session.every_service(*(compute(f"c7i.{size}large", "1") for size in ("", "x", "2x", "4x")))
    last = session.lists.files["AmazonEC2"].splitlines(keepends=True)[-3:]
    session.lists.cut, session.lists.tells_length = (sum(map(len, last)) if tells_length else 300), tells_length
    (found,) = ask(session, "us-west-2", tmp_path, ["on_demand"])
    assert found.refused
    assert says in found.refused
    session.lists.cut = 0
    (found,) = ask(session, "us-west-2", tmp_path, ["on_demand"])
    assert len(found.found) == 4


SPOT_JSON = {
    "vers": 0.01,
    "config": {
        "rate": "perhr",
        "valueColumns": ["linux", "mswin"],
        "currencies": ["USD"],
        "regions": [
            {
                "region": "us-east",
                "instanceTypes": [
                    {
                        "type": "computeCurrentGen",
                        "sizes": [
                            {
                                "size": kind,
                                "valueColumns": [
                                    {"name": "linux", "prices": {"USD": usd}},
                                    {"name": "mswin", "prices": {"USD": "0.9"}},
                                ],
                            }
                            for kind, usd in (("c7i.large", "0.0361"), ("c7i.xlarge", "N/A*"), ("x99.large", "1"))
                        ],
                    }
                ],
            }
        ],
    },
}


def spot_file(content: Any = SPOT_JSON, days: int = 0) -> spot_page.Page:
    seen = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    return spot_page.Page(lambda: (json.dumps(content).encode(), email.utils.format_datetime(seen, usegmt=True)))


def test_without_a_login_spot_prices_are_of_the_public_page(session, tmp_path):
    session.login = False
    asked = source(session, tmp_path, spot_file())
    (found,) = asked.ask("us-east-1", ["spot", "offerings"])
    assert (found.part, found.found) == ("spot", {"c7i.large": [0.0361, 0.0361]})
    assert found.source.startswith("EC2 Spot Pricing page")
    assert "c7i.xlarge" in found.missing


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (spot_file(days=40), "more than 30 days ago"),
        (spot_file({"config": {"regions": []}}), "does not have us-east-1"),
        (spot_file({"config": {}}), "KeyError"),
        (spot_file([]), "TypeError"),
    ],
    ids=["old", "without the region", "another shape", "a list"],
)
def test_a_spot_page_that_is_old_or_different_is_a_refusal(session, tmp_path, page, says):
    session.login = False
    (found,) = source(session, tmp_path, page).ask("us-east-1", ["spot"])
    assert found.refused
    assert says in found.refused


def test_a_resumed_history_asks_the_same_question(session, tmp_path):
    asked: list[Any] = []
    session.clients["ec2"].meta.events.register(
        "provide-client-params.ec2.DescribeSpotPriceHistory", lambda params, **_: asked.append(params["EndTime"])
    )
    session.spot()
    session.spot()
    for _ in range(2):
        ask(session, "us-west-2", tmp_path, ["spot"])
        aws.Aws(session, feed(), tmp_path).forget("us-west-2", "spot")
    assert len(asked) > 2
    assert len(set(asked)) == 1


def half(session: Session) -> None:
    """The first of two pages, and then a refusal."""
    offerings(session, [("c7i.large", "usw2-az1")], more=True)
    session.stubs["ec2"].add_client_error("describe_instance_type_offerings", "InternalError")


def test_aws_continues_with_the_page_that_was_missing(session, tmp_path):
    half(session)
    (refused,) = ask(session, "us-west-2", tmp_path, ["offerings"])
    assert "InternalError" in (refused.refused or "")
    rows = [{"InstanceType": "c7i.xlarge", "LocationType": "availability-zone-id", "Location": "usw2-az2"}]
    asked = {"LocationType": "availability-zone-id", "NextToken": "more"}
    session.stubs["ec2"].add_response("describe_instance_type_offerings", {"InstanceTypeOfferings": rows}, asked)
    (whole,) = ask(session, "us-west-2", tmp_path, ["offerings"])
    assert (whole.found["c7i.large"], whole.found["c7i.xlarge"]) == (["usw2-az1"], ["usw2-az2"])


@pytest.mark.parametrize("code", ["ExpiredNextTokenException", "InvalidNextToken", "InvalidParameterValue"])
def test_a_token_that_aws_no_longer_takes_starts_the_listing_again(session, tmp_path, code):
    half(session)
    ask(session, "us-west-2", tmp_path, ["offerings"])
    session.stubs["ec2"].add_client_error("describe_instance_type_offerings", code)
    offerings(session, [("c7i.large", "usw2-az3")], [("c7i.xlarge", "usw2-az2")])
    (whole,) = ask(session, "us-west-2", tmp_path, ["offerings"])
    assert (whole.found["c7i.large"], whole.found["c7i.xlarge"]) == (["usw2-az3"], ["usw2-az2"])


def test_without_a_login_it_says_what_is_not_asked_for(session, tmp_path):
    asked = source(session, tmp_path)
    assert asked.check(PARTS) is None
    session.login = False
    assert "no AWS login" in (asked.check(PARTS) or "")
    with pytest.raises(region.RefusedError, match="no AWS credentials"):
        asked.check(["offerings"])


def test_the_regions_of_aws_are_the_commercial_ones(session, tmp_path):
    found = aws.Aws(session, feed(), tmp_path).regions()
    assert len(found) >= 30
    assert {"us-east-1", "eu-central-1", "sa-east-1"} <= set(found)
    assert not [name for name in found if name.startswith(("cn-", "us-gov-", "us-iso"))]


def offerings(session: Session, *pages: list[tuple[str, str]], more: bool = False) -> None:
    for number, page in enumerate(pages):
        rows = [{"InstanceType": kind, "LocationType": "availability-zone-id", "Location": zone} for kind, zone in page]
        answer = {"InstanceTypeOfferings": rows} | ({"NextToken": "more"} if more or number + 1 < len(pages) else {})
        asked = {"LocationType": "availability-zone-id"} | ({"NextToken": "more"} if number else {})
        session.stubs["ec2"].add_response("describe_instance_type_offerings", answer, asked)


def test_a_type_that_no_zone_has_is_known_to_be_missing(session, tmp_path):
    offerings(session, [("c7i.large", "usw2-az2"), ("x99.huge", "usw2-az1")], [("c7i.large", "usw2-az1")])
    (found,) = ask(session, "us-west-2", tmp_path, ["offerings"])
    assert (found.found["c7i.large"], found.found["c7i.xlarge"]) == (["usw2-az1", "usw2-az2"], [])
    assert "x99.huge" not in found.found
    assert found.missing == []


def test_offerings_that_are_empty_are_no_answer(session, tmp_path):
    offerings(session, [])
    (found,) = ask(session, "us-west-2", tmp_path, ["offerings"])
    assert found.found == {}


def test_interruptions_carry_the_date_of_their_feed(session, tmp_path):
    (found,) = ask(session, "us-west-2", tmp_path, ["interruption"])
    assert found.found == {"c7i.large": [20, 100], "g5.xlarge": [5, 10]}
    assert found.as_of == datetime.date(2026, 2, 3)
    assert "c7i.xlarge" in found.missing


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"ranges": [], "spot_advisor": {"us-west-2": {"Linux": {"c7i.large": {"s": 1, "r": 7}}}}},
        {"ranges": [{"index": 0, "label": "rarely"}], "spot_advisor": {"us-west-2": {"Linux": {}}}},
        {**FEED, "spot_advisor": {"eu-west-1": {"Linux": {}}}},
        ["not", "a", "feed"],
    ],
)
def test_a_feed_of_another_shape_is_a_refusal(session, tmp_path, content):
    (found,) = aws.Aws(session, feed(content), tmp_path).ask("us-west-2", ["interruption"])
    assert found.refused
    assert found.found == {}


def test_a_feed_that_cannot_be_read_is_asked_for_once(session, tmp_path):
    asked = []

    def gone() -> tuple[bytes, str | None]:
        asked.append(1)
        raise OSError("no route")

    source = aws.Aws(session, advisor.Feed(gone), tmp_path)
    answers = [source.ask(name, ["interruption"])[0] for name in ("us-west-2", "eu-west-1")]
    assert [answer.refused for answer in answers] == ["OSError: no route"] * 2
    assert len(asked) == 1


def test_a_feed_without_a_date_is_of_the_day_it_was_read():
    assert feed(modified=None).as_of == region.today()
    assert feed(modified=email.utils.formatdate(0)).as_of == datetime.date(1970, 1, 1)


# ---- GCP -----------------------------------------------------------------------------------------------------------


def sku(description: str, usd: float, unit: str = "h", usage: str = "OnDemand", where: str = "us-central1") -> dict:
    tiers = [{"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": 0}}] * (unit == "ip")
    price = {"currencyCode": "USD", "units": str(int(usd)), "nanos": round(usd % 1 * 1e9)}
    expression = {
        "usageUnit": "h" if unit == "ip" else unit,
        "tieredRates": [*tiers, {"startUsageAmount": 720 * len(tiers), "unitPrice": price}],
    }
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": [where],
        "pricingInfo": [{"pricingExpression": expression}],
    }


def parts(family: str, core: float, ram: float, spot: bool = False, **more: str) -> list[dict]:
    head, usage = ("Spot Preemptible ", "Preemptible") if spot else ("", "OnDemand")
    name = f"{head}{family} Instance"
    return [
        sku(f"{name} Core running in Americas", core, "h", usage, **more),
        sku(f"{name} Ram running in Americas", ram, "GiBy.h", usage, **more),
    ]


SKUS = [
    *parts("N2", 0.031611, 0.004237),
    *parts("N2", 0.00976, 0.001307, spot=True),
    *parts("N2", 9, 9, where="europe-west4"),
    *parts("N2D AMD", 0.027502, 0.003686),
    *parts("N1 Predefined", 0.031611, 0.004237),
    *parts("G2", 0.024988, 0.002927),
    *parts("N2 Custom", 7, 7),
    *parts("T2A Arm", 0.0312, 0.0042),
    sku("N2 Sole Tenancy Instance Core running in Americas", 6),
    sku("N2 Instance Core running in Americas", 5, usage="Commit1Yr"),
    sku("Nvidia L4 GPU running in Americas", 0.56004),
    sku("Nvidia Tesla T4 GPU running in Americas", 0.35),
    *parts("G4", 0.04891, 0.00587),
    sku("RTX 6000 96GB running in Americas", 1.09565),
    sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Americas", 0.2, usage="Preemptible"),
    sku("Balanced PD Capacity", 0.1, "GiBy.mo"),
    sku("Regional Balanced PD Capacity", 0.2, "GiBy.mo"),
    sku("External IP Charge on a Standard VM", 0.005, "ip", where="global"),
    sku("External IP Charge on a Spot Preemptible VM", 0.0025, "ip", where="global"),
    {"description": "E2 Instance Core running in Americas", "category": {"usageType": "OnDemand"},
     "serviceRegions": ["us-central1"], "pricingInfo": []},
]  # fmt: skip


class Catalog:
    """A session that answers the SKUs in two pages."""

    def __init__(self, status: int = 200, skus: list[dict] = SKUS) -> None:
        self.asked: list[dict[str, Any]] = []
        self.skus = skus
        self.status = status
        self.fails_at: str | None = None

    def get(self, url: str, params: dict[str, Any], timeout: float) -> requests.Response:
        self.asked.append({"url": url, **params})
        if params["pageToken"] == self.fails_at:
            raise requests.ConnectionError("gone")
        page = {"skus": self.skus[7:]} if params["pageToken"] else {"skus": self.skus[:7], "nextPageToken": "second"}
        answer = requests.Response()
        answer.status_code, answer._content = self.status, json.dumps(page).encode()
        return answer


def test_gcp_is_asked_page_by_page_and_machines_are_their_parts(tmp_path):
    catalog = Catalog()
    found = by_part(gcp.Gcp(catalog, folder=tmp_path).ask("us-central1", PARTS))  # type: ignore[arg-type]
    assert [each["pageToken"] for each in catalog.asked] == ["", "second"]
    assert catalog.asked[0]["url"].endswith("/services/6F81-5844-456A/skus")
    listed = found["on_demand"].found
    assert listed["n2-standard-16"] == 0.776944
    assert listed["n2d-highcpu-2"] == round(2 * 0.027502 + 2 * 0.003686, 6)
    assert listed["g2-standard-24"] == round(24 * 0.024988 + 96 * 0.002927 + 2 * 0.56004, 6)
    assert listed["g4-standard-96"] == round(2 * 4.49993, 6)
    assert listed["n1-standard-8"] == 0.379998
    assert listed["n1-standard-8+1t4"] == 0.729998
    assert found["spot"].found["n2-standard-16"] == [0.239808, 0.239808]


def test_what_the_catalogue_does_not_have_is_missing_and_not_cheap(tmp_path):
    found = by_part(gcp.Gcp(Catalog(), folder=tmp_path).ask("us-central1", PARTS))  # type: ignore[arg-type]
    # No RAM price for E2, so no price of its core; no Spot core of G2, though its GPU has a price.
    assert "e2-standard-4" in found["on_demand"].missing
    assert "g2-standard-4" in found["spot"].missing
    assert set(found["on_demand"].found).isdisjoint(found["on_demand"].missing)


@pytest.mark.parametrize("own", [True, False])
def test_local_disks_of_gcp_are_part_of_a_machine(tmp_path, own):
    disk = "{}C3 Instance Local SSD running in Americas" if own else "SSD backed Local Storage{} in Iowa"
    named = [disk.format(""), disk.format("Spot Preemptible " if own else " attached to Spot Preemptible VMs")]
    disks = [sku(named[0], 0.073, "GiBy.mo"), sku(named[1], 0.00002, "GiBy.h", "Preemptible" if own else "OnDemand")]
    catalog = Catalog(skus=[*parts("C3", 0.03, 0.004), *parts("C3", 0.01, 0.001, spot=True), *disks])
    found = by_part(gcp.Gcp(catalog, folder=tmp_path).ask("us-central1", ["on_demand", "spot"]))  # type: ignore[arg-type]
    plain, local = (found["on_demand"].found[f"c3-standard-8{end}"] for end in ("", "-lssd"))
    assert local == pytest.approx(plain + 2 * 375 * 0.0001, abs=1e-6)
    spot = found["spot"].found
    assert spot["c3-standard-8-lssd"][0] == pytest.approx(spot["c3-standard-8"][0] + 2 * 375 * 0.00002, abs=1e-6)


def test_a_machine_with_local_disks_of_no_price_has_none(tmp_path):
    catalog = Catalog(skus=parts("C3", 0.03, 0.004))
    (found,) = gcp.Gcp(catalog, folder=tmp_path).ask("us-central1", ["on_demand"])  # type: ignore[arg-type]
    assert "c3-standard-8" in found.found
    assert "c3-standard-8-lssd" not in found.found


def test_addresses_are_billed_beyond_their_free_hours(tmp_path):
    assert by_part(gcp.Gcp(Catalog(), folder=tmp_path).ask("us-central1", PARTS))["services"].found == {  # type: ignore[arg-type]
        "disk_gib_month": 0.1,
        "public_ipv4_hour": 0.005,
        "public_ipv4_spot_hour": 0.0025,
    }


def test_the_catalogue_is_read_once_for_all_regions_and_continues(tmp_path):
    broken, catalog = Catalog(), Catalog()
    broken.fails_at = "second"
    with pytest.raises(region.RefusedError, match="ConnectionError"):
        gcp.Gcp(broken, folder=tmp_path).check(PARTS)  # type: ignore[arg-type]
    source = gcp.Gcp(catalog, folder=tmp_path)  # type: ignore[arg-type]
    assert source.regions() == ["europe-west4", "us-central1"]
    there, here = (source.ask(name, ["on_demand"])[0].found for name in source.regions())
    assert (there["n2-standard-16"], here["n2-standard-16"]) == (16 * 9 + 64 * 9, 0.776944)
    assert [each["pageToken"] for each in catalog.asked] == ["second"]


def test_a_region_of_the_catalogue_names_no_other_file(tmp_path):
    catalog = Catalog(
        skus=[each for where in ("../own", "us-west1", "a/b", "x\n") for each in parts("N2", 1, 1, where=where)]
    )
    assert gcp.Gcp(catalog, folder=tmp_path).regions() == ["us-west1"]  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [400, 403, 500])
def test_a_catalogue_that_refuses_is_not_asked_again_for_each_region(tmp_path, status):
    with pytest.raises(region.RefusedError, match=str(status)):
        gcp.Gcp(Catalog(status=status), folder=tmp_path).check(PARTS)  # type: ignore[arg-type]


# ---- the command ---------------------------------------------------------------------------------------------------


class Told:
    """A cloud with given answers, and what it was asked."""

    def __init__(self, *answers: Answer, regions: tuple[str, ...] = ("us-west-2",)) -> None:
        self.answers, self.names = answers, regions
        self.asked: list[tuple[str, str]] = []

    def check(self, parts: Any) -> None:
        pass

    def regions(self) -> list[str]:
        return list(self.names)

    def ask(self, name: str, parts: Any) -> list[Answer]:
        self.asked += [(name, part) for part in parts]
        return [answer for answer in self.answers if answer.part in parts]

    def forget(self, name: str, part: str) -> None:
        pass


def refresh(monkeypatch: pytest.MonkeyPatch, source: Told, *options: str, cloud: str = "aws") -> Any:
    monkeypatch.setattr(command, "_source", {cloud: source}.__getitem__)
    return CliRunner().invoke(command.prices, ["refresh", "--cloud", cloud, *options])


def test_refresh_writes_what_was_answered_and_names_the_rest(data, monkeypatch):
    answers = [
        Answer("on_demand", "asked", {"c7i.large": 0.09}, ["c7i.xlarge"]),
        Answer("spot", "asked", refused="AccessDenied: no"),
        Answer("services", "asked", {"nat_gateway_hour": 0.045}),
    ]
    told = refresh(monkeypatch, Told(*answers))
    assert told.exit_code == 3
    assert f"us-west-2: 1 on_demand of {today()} (1 changed)" in told.output
    assert "us-west-2: on_demand: unknown for c7i.xlarge" in told.output
    assert "us-west-2: spot could not be read and stays unchanged: AccessDenied: no" in told.output
    assert "Incomplete: us-west-2 (1 of 1 regions). The same command continues." in told.output
    found = region.read("aws", "us-west-2")
    assert found.parts == {"on_demand": {"as_of": today(), "source": "asked", "usd_hour": {"c7i.large": 0.09}}}
    assert sorted(found.services) == ["kms_key_month", "nat_gateway_hour"]


def test_refresh_makes_every_region_that_the_cloud_names(data, monkeypatch):
    source = Told(Answer("on_demand", "asked", {"n2-standard-2": 0.1}), regions=("us-east4", "me-west1"))
    assert refresh(monkeypatch, source, cloud="gcp").exit_code == 0
    assert prices.regions("gcp") == ["me-west1", "us-east4"]


def test_a_refresh_that_was_interrupted_asks_only_for_the_rest(data, monkeypatch):
    class Interrupted(Told):
        def ask(self, name: str, parts: Any) -> list[Answer]:
            if (name, *parts) == ("eu-west-1", "spot"):
                raise KeyboardInterrupt
            return super().ask(name, parts)

    answers = [Answer("on_demand", "asked", {"c7i.large": 0.1}), Answer("spot", "asked", {"c7i.large": [0.1, 0.2]})]
    first = Interrupted(*answers, regions=("ap-south-1", "eu-west-1"))
    second = Told(*answers, regions=("ap-south-1", "eu-west-1"))
    assert refresh(monkeypatch, first).exit_code == 1
    assert refresh(monkeypatch, second).exit_code == 0
    assert {each for each in second.asked if each[1] in ("on_demand", "spot")} == {("eu-west-1", "spot")}
    third = Told(*answers, regions=("ap-south-1",))
    assert refresh(monkeypatch, third, "--again").exit_code == 0
    assert ("ap-south-1", "on_demand") in third.asked


def test_two_refreshes_do_not_mix(data, monkeypatch):
    with command._alone():
        told = refresh(monkeypatch, Told())
    assert told.exit_code == 2
    assert "another refresh is running" in told.output


def test_nothing_is_written_when_everything_is_refused(data, monkeypatch):
    source = Told(Answer("spot", "asked", refused="no"), regions=("us-east4",))
    assert refresh(monkeypatch, source, cloud="gcp").exit_code == 3
    assert prices.regions("gcp") == []


def test_a_cloud_that_cannot_be_asked_says_so_once(data, monkeypatch):
    class Silent(Told):
        def check(self, parts: Any) -> None:
            raise region.RefusedError("403")

    told = refresh(monkeypatch, Silent(regions=("a", "b")), cloud="gcp")
    assert told.exit_code == 3
    assert told.output == "gcp could not be asked, and no price changes: 403\n"


def test_a_price_of_a_type_that_the_region_lacks_is_not_missed(data, monkeypatch):
    offered = Answer("offerings", "asked", {"c7i.large": ["usw2-az1"], "c7i.xlarge": []})
    priced = Answer("on_demand", "asked", {"c7i.large": 0.1}, ["c7i.xlarge", "c7i.2xlarge"])
    told = refresh(monkeypatch, Told(offered, priced))
    assert "us-west-2: on_demand: unknown for c7i.2xlarge\n" in told.output
    table._region.cache_clear()
    assert prices.offering("aws", "us-west-2", "c7i.large") == prices.Offering(("usw2-az1",), region.today(), "asked")


def test_one_part_alone_is_refreshed(data, monkeypatch):
    source = Told(Answer("interruption", "feed", {"c7i.large": [5, 10]}))
    assert refresh(monkeypatch, source, "--part", "interruption").exit_code == 0
    assert source.asked == [("us-west-2", "interruption")]
    told = refresh(monkeypatch, Told(), "--part", "interruption", cloud="gcp")
    assert (told.exit_code, "gcp does not tell interruption" in told.output) == (2, True)


def test_half_an_answer_does_not_take_the_place_of_a_whole_one(data, monkeypatch):
    whole = Answer("on_demand", "asked", {f"c7i.{number}": 1.0 for number in range(100)})
    assert refresh(monkeypatch, Told(whole), "--fewer").exit_code == 0
    half = replace(whole, found={f"c7i.{number}": 2.0 for number in range(89)})
    told = refresh(monkeypatch, Told(half), "--again")
    assert told.exit_code == 3
    assert f"it lacks 11 of the 100 values of {today()}; `--fewer` takes it all the same" in told.output
    assert region.read("aws", "us-west-2").parts["on_demand"]["usd_hour"] == whole.found
    assert refresh(monkeypatch, Told(half), "--again", "--fewer").exit_code == 0
    assert len(region.read("aws", "us-west-2").parts["on_demand"]["usd_hour"]) == 89


def test_one_command_asks_each_cloud(data, monkeypatch):
    sources = {
        "aws": Told(Answer("on_demand", "asked", {"c7i.large": 0.1}), regions=("us-west-2",)),
        "gcp": Told(Answer("on_demand", "asked", {"n2-standard-2": 0.1}), regions=("us-east4",)),
    }
    monkeypatch.setattr(command, "_source", sources.__getitem__)
    assert CliRunner().invoke(command.prices, ["refresh"]).exit_code == 0
    assert (prices.regions("aws"), prices.regions("gcp")) == (["us-west-2"], ["us-east4"])
    told = CliRunner().invoke(command.prices, ["refresh", "--region", "us-east4"])
    assert (told.exit_code, "--region needs --cloud" in told.output) == (2, True)


def test_show_says_how_old_the_table_is(data):
    told = CliRunner().invoke(command.prices, ["show", "--cloud", "aws"])
    assert (
        told.output
        == "us-west-2: 1 on_demand (2025-01-01, more than a year ago), 1 services (2025-01-01 to 2025-01-01); "
        "no offerings, spot, interruption\n"
    )


def test_show_prints_a_region_as_it_is_stored(data):
    told = CliRunner().invoke(command.prices, ["show", "--cloud", "aws", "--region", "us-west-2"])
    assert json.loads(told.output)["on_demand"] == OLD
    told = CliRunner().invoke(command.prices, ["show", "--cloud", "aws", "--region", "mars"])
    assert (told.exit_code, "it has us-west-2" in told.output) == (2, True)
