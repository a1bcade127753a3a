"""The clients that refresh the price table, on answers in the shape of the clouds'. Not proven: that the clouds answer
so today, and that their filters and descriptions are still called so."""

import datetime
import json
from typing import Any

import boto3
import pytest
import requests
from botocore.stub import ANY, Stubber
from click.testing import CliRunner

from components import machines
from ops import prices as command
from ops.prices import aws, gcp, region
from ops.prices.region import Answer, Region
from tidemill import prices
from tidemill.prices import table

TODAY = datetime.date.today().isoformat()
OLD = {"as_of": "2025-01-01", "source": "long ago", "usd_hour": {"c7i.large": 9.0}}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A separate table with one old region."""
    monkeypatch.setattr(table, "DATA", tmp_path)
    table._region.cache_clear()
    region.write(
        Region(
            "aws",
            "us-west-2",
            dict(OLD),
            None,
            {"kms_key_month": {"usd": 9.0, **{k: OLD[k] for k in ("as_of", "source")}}},
        )
    )
    yield tmp_path
    table._region.cache_clear()


# ---- a region's file ---------------------------------------------------------------------------------------------


def test_an_answer_takes_the_place_of_its_part_alone(data):
    found = region.read("aws", "us-west-2")
    found.take(Answer("spot", "asked", {"c7i.large": [0.02, 0.05]}))
    found.take(Answer("services", "asked", {"nat_gateway_hour": 0.045}))
    region.write(found)
    price = prices.machine("aws", "us-west-2", "c7i.large")
    assert price is not None
    assert (price.on_demand, price.as_of) == (9.0, datetime.date(2025, 1, 1))
    assert price.spot is not None
    assert (price.spot.low, price.spot.high, price.spot.as_of.isoformat()) == (0.02, 0.05, TODAY)
    key, nat = (prices.service("aws", "us-west-2", name) for name in ("kms_key_month", "nat_gateway_hour"))
    assert key is not None
    assert nat is not None
    assert (key.usd, key.as_of.isoformat(), nat.usd, nat.as_of.isoformat()) == (9.0, "2025-01-01", 0.045, TODAY)


@pytest.mark.parametrize("answer", [Answer("on_demand", "asked", refused="no"), Answer("on_demand", "asked")])
def test_a_refusal_or_an_empty_answer_changes_nothing(data, answer):
    found = region.read("aws", "us-west-2")
    found.take(answer)
    assert found.on_demand == OLD


def test_a_write_that_fails_leaves_the_old_file_and_no_other(data, monkeypatch):
    before = (data / "aws" / "us-west-2.json").read_text()
    monkeypatch.setattr(region, "_text", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        region.write(Region("aws", "us-west-2", None, None, {}))
    assert [path.name for path in (data / "aws").iterdir()] == ["us-west-2.json"]
    assert (data / "aws" / "us-west-2.json").read_text() == before


def test_what_is_shipped_is_written_as_a_refresh_writes_it():
    for path in sorted(table.DATA.glob("*/*.json")):
        assert region._text(region.read(path.parent.name, path.stem)) == path.read_text(), path


# ---- AWS -----------------------------------------------------------------------------------------------------------


def product(usd: str, unit: str, **attributes: str) -> str:
    """A product of the Price List API, as JSON text."""
    dimension = {"unit": unit, "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": usd}}
    term = {"priceDimensions": {"S.T.D": dimension}, "sku": "S", "offerTermCode": "T"}
    return json.dumps(
        {"product": {"productFamily": "x", "sku": "S", "attributes": attributes}, "terms": {"OnDemand": {"S.T": term}}}
    )


def compute(type: str, usd: str, **more: str) -> str:  # noqa: A002
    return product(usd, "Hrs", instanceType=type, licenseModel="No License required", **more)


def service(usage: str, usd: str, unit: str = "Hrs") -> str:
    return product(usd, unit, usagetype=usage)


class Session:
    """Stubbed clients in place of boto3's session."""

    def __init__(self) -> None:
        self.clients = {
            name: boto3.client(name, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
            for name in ("pricing", "ec2")
        }
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        self.regions: dict[str, str] = {}
        for stub in self.stubs.values():
            stub.activate()

    def client(self, name: str, region_name: str, config: Any) -> Any:
        self.regions[name] = region_name
        return self.clients[name]

    def products(self, code: str, *pages: list[str]) -> None:
        for number, page in enumerate(pages):
            asked: dict[str, Any] = {"ServiceCode": code, "Filters": ANY}
            answer: dict[str, Any] = {"PriceList": page}
            if number:
                asked["NextToken"] = f"page{number}"
            if number + 1 < len(pages):
                answer["NextToken"] = f"page{number + 1}"
            self.stubs["pricing"].add_response("get_products", answer, asked)

    def every_service(self) -> None:
        self.products("AmazonEC2", [service("USW2-EBS:VolumeUsage.gp3", "0.08", "GB-Mo")])
        endpoints = [
            service("USW2-VpcEndpoint-Hours", "0.01"),
            service("USW2-VpcEndpoint-GWLBE-Hours", "0.0125"),
            service("USW2-PublicIPv4:InUseAddress", "0.005"),
            service("USW2-PublicIPv4:IdleAddress", "0.006"),
        ]
        self.products("AmazonVPC", endpoints[:1], endpoints[1:])
        self.products("awskms", [service("us-west-2-KMS-Keys", "1.0", "keys")])
        self.products(
            "AmazonEC2", [service("USW2-NatGateway-Hours", "0.045"), service("USW2-NatGateway-Bytes", "0.09")]
        )
        self.products("AmazonVPC", endpoints)

    def spot(self, *seen: tuple[str, str, str]) -> None:
        rounds = -(-len(machines.table()) // 50)
        for number in range(rounds):
            history = [
                {"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": usd, "ProductDescription": "Linux/UNIX"}
                for name, zone, usd in (seen if number == 0 else ())
            ]
            self.stubs["ec2"].add_response("describe_spot_price_history", {"SpotPriceHistory": history})


@pytest.fixture
def session():
    return Session()


def by_part(answers: list[Answer]) -> dict[str, Answer]:
    return {answer.part: answer for answer in answers}


def test_aws_is_asked_page_by_page(session):
    first = [compute("c7i.large", "0.0892500000"), compute("x9.large", "1"), compute("c7i.xlarge", "0.0000000000")]
    session.products("AmazonEC2", first, [compute("c7i.2xlarge", "0.3570000000")])
    session.spot(
        ("c7i.large", "us-west-2a", "0.030000"), ("c7i.large", "us-west-2b", "0.041"), ("c7i.large", "a", "0.02")
    )
    session.every_service()
    found = by_part(aws.ask("us-west-2", session))
    assert found["on_demand"].found == {"c7i.large": 0.08925, "c7i.2xlarge": 0.357}
    assert "c7i.xlarge" in found["on_demand"].missing
    assert found["spot"].found == {"c7i.large": [0.02, 0.041]}
    assert found["services"].found == {
        "disk_gib_month": 0.08,
        "interface_endpoint_hour": 0.01,
        "kms_key_month": 1.0,
        "nat_gateway_hour": 0.045,
        "public_ipv4_hour": 0.005,
    }
    assert session.regions == {"pricing": "us-east-1", "ec2": "us-west-2"}


def test_a_service_with_two_prices_has_none(session):
    session.stubs["pricing"].add_client_error("get_products", "ThrottlingException")
    session.spot()
    session.products("AmazonEC2", [service("USW2-EBS:VolumeUsage.gp3", "0.08"), service("EBS:VolumeUsage.gp3", "0.1")])
    for code in ("AmazonVPC", "awskms", "AmazonEC2", "AmazonVPC"):
        session.products(code, [])
    found = by_part(aws.ask("us-west-2", session))
    assert found["services"].found == {}
    assert len(found["services"].missing) == 5


def test_one_part_refused_is_told_and_the_others_stand(session):
    session.products("AmazonEC2", [compute("c7i.large", "0.08925")])
    session.stubs["ec2"].add_client_error("describe_spot_price_history", "UnauthorizedOperation", "no")
    session.every_service()
    found = by_part(aws.ask("eu-west-1", session))
    assert found["spot"].refused is not None
    assert "UnauthorizedOperation" in found["spot"].refused
    assert found["on_demand"].refused is None
    assert session.regions["pricing"] == "eu-central-1"


def test_the_filters_are_ones_that_the_api_takes(session):
    session.stubs["pricing"].add_response(
        "get_products",
        {"PriceList": []},
        {
            "ServiceCode": "AmazonEC2",
            "Filters": [
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in [*aws._COMPUTE.items(), ("regionCode", "us-west-2")]
            ],
        },
    )
    assert aws._on_demand(session.clients["pricing"], "us-west-2") == {}


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
    sku("N2 Instance Core running in Americas", 5, usage="Commit1Yr"),
    sku("Nvidia L4 GPU running in Americas", 0.56004),
    sku("Nvidia Tesla T4 GPU running in Americas", 0.35),
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

    def __init__(self, status: int = 200) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = status

    def get(self, url: str, params: dict[str, Any], timeout: float) -> requests.Response:
        self.asked.append({"url": url, **params})
        page = {"skus": SKUS[7:]} if params["pageToken"] else {"skus": SKUS[:7], "nextPageToken": "second"}
        answer = requests.Response()
        answer.status_code, answer._content = self.status, json.dumps(page).encode()
        return answer


def test_gcp_is_asked_page_by_page_and_machines_are_their_parts():
    catalog = Catalog()
    found = by_part(gcp.ask("us-central1", catalog))  # type: ignore[arg-type]
    assert [each["pageToken"] for each in catalog.asked] == ["", "second"]
    assert catalog.asked[0]["url"].endswith("/services/6F81-5844-456A/skus")
    listed = found["on_demand"].found
    assert listed["n2-standard-16"] == 0.776944
    assert listed["n2d-highcpu-2"] == round(2 * 0.027502 + 2 * 0.003686, 6)
    assert listed["g2-standard-24"] == round(24 * 0.024988 + 96 * 0.002927 + 2 * 0.56004, 6)
    assert listed["n1-standard-8"] == 0.379998
    assert listed["n1-standard-8+1t4"] == 0.729998
    assert found["spot"].found["n2-standard-16"] == [0.239808, 0.239808]


def test_what_the_catalogue_does_not_have_is_missing_and_not_cheap():
    found = by_part(gcp.ask("us-central1", Catalog()))  # type: ignore[arg-type]
    # No RAM price for E2, so no price of its core; no Spot core of G2, though its GPU has a price.
    assert "e2-standard-4" in found["on_demand"].missing
    assert "g2-standard-4" in found["spot"].missing
    assert set(found["on_demand"].found).isdisjoint(found["on_demand"].missing)


def test_addresses_are_billed_beyond_their_free_hours():
    assert by_part(gcp.ask("us-central1", Catalog()))["services"].found == {  # type: ignore[arg-type]
        "disk_gib_month": 0.1,
        "public_ipv4_hour": 0.005,
        "public_ipv4_spot_hour": 0.0025,
    }


def test_a_catalogue_that_refuses_changes_no_part():
    answers = gcp.ask("us-central1", Catalog(status=403))  # type: ignore[arg-type]
    assert [answer.part for answer in answers] == ["on_demand", "spot", "services"]
    assert all("403" in (answer.refused or "") for answer in answers)


# ---- the command ---------------------------------------------------------------------------------------------------


def test_refresh_writes_what_was_answered_and_names_the_rest(data, monkeypatch):
    answers = [
        Answer("on_demand", "asked", {"c7i.large": 0.09}, ["c7i.xlarge"]),
        Answer("spot", "asked", refused="AccessDenied: no"),
        Answer("services", "asked", {"nat_gateway_hour": 0.045}),
    ]
    monkeypatch.setitem(command._SOURCES, "aws", lambda name: answers)
    told = CliRunner().invoke(command.prices, ["refresh", "--cloud", "aws"])
    assert told.exit_code == 3
    assert "us-west-2: on_demand: no price for c7i.xlarge" in told.output
    assert "us-west-2: spot prices could not be read and stay unchanged: AccessDenied: no" in told.output
    found = region.read("aws", "us-west-2")
    assert found.on_demand == {"as_of": TODAY, "source": "asked", "usd_hour": {"c7i.large": 0.09}}
    assert sorted(found.services) == ["kms_key_month", "nat_gateway_hour"]


def test_refresh_makes_a_region_that_was_not_there(data, monkeypatch):
    monkeypatch.setitem(command._SOURCES, "gcp", lambda name: [Answer("on_demand", "asked", {"n2-standard-2": 0.1})])
    assert CliRunner().invoke(command.prices, ["refresh", "--cloud", "gcp", "--region", "us-east4"]).exit_code == 0
    assert prices.regions("gcp") == ["us-east4"]


def test_nothing_is_written_when_everything_is_refused(data, monkeypatch):
    monkeypatch.setitem(command._SOURCES, "gcp", lambda name: [Answer("spot", "asked", refused="no")])
    assert CliRunner().invoke(command.prices, ["refresh", "--cloud", "gcp", "--region", "us-east4"]).exit_code == 3
    assert prices.regions("gcp") == []


def test_show_says_how_old_the_table_is(data):
    told = CliRunner().invoke(command.prices, ["show", "--cloud", "aws"])
    assert told.output == "us-west-2: 1 on_demand (2025-01-01), 1 services (2025-01-01 to 2025-01-01)\n"
