"""Price files, pages and answers that are damaged, and commands that are stopped or come twice.

Not proven: a power cut, after which a file system may have lost what was written last.
"""

import errno
import gzip
import json
import os
import subprocess
import sys
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import boto3
import pytest
from botocore.config import Config
from click.testing import CliRunner

from ops import prices as command
from ops.__main__ import main
from ops.prices import aws, gcp, pages
from ops.prices.region import Answer, read, why, write
from policy.rules.common import caps
from tests.ops.test_prices import Catalog, Listing, Told, parts, refresh
from tidemill import prices
from tidemill.errors import CallerError
from tidemill.planned_fleet import PlannedFleet
from tidemill.prices import own, table

SET = ("prices", "set", "--cloud", "aws", "--type", "c7i.large", "--usd-hour", "0.1", "--source", "contract")


def stored(data: Path, **parts: Any) -> None:
    """A region's file with these parts."""
    head = {"as_of": "2026-11-01", "source": "list"}
    content = {part: {**head, table.VALUES[part]: values} for part, values in parts.items()}
    (data / "aws").mkdir(exist_ok=True)
    (data / "aws" / "us-west-2.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))


def over(market: Any) -> list[Any]:
    fleet = PlannedFleet("urn:one", market, 1000, ("c7i.large",))
    return list(caps.over_usd("aws", "us-west-2", [fleet], 1, 0))


@pytest.mark.parametrize("usd", [0, -0.1, float("nan"), float("inf"), "0.1", None, True, [], [0.1, 0.1]])
def test_no_damaged_price_lets_a_stack_through_a_cap(data, usd):
    stored(data, on_demand={"c7i.large": 0.1})
    assert over("on_demand")
    table._region.cache_clear()
    stored(data, on_demand={"c7i.xlarge": 0.1, "c7i.large": usd})
    with pytest.raises(CallerError, match=r"us-west-2.json.gz is not whole \(on_demand has c7i.large: "):
        over("on_demand")


@pytest.mark.parametrize("usd", [0, [], [0, 0], [0, 0.1], [0.1], [0.2, 0.1], [float("nan")] * 2, ["0.1", "0.1"]])
def test_nor_does_a_damaged_spot_price(data, usd):
    stored(data, on_demand={"c7i.large": 0.1}, spot={"c7i.large": usd})
    with pytest.raises(CallerError, match=r"is not whole \(spot has c7i.large: "):
        over("spot")


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"on_demand": []},
        {"on_demand": {"usd_hour": {"c7i.large": 0.1}}},
        {"on_demand": {"usd_hour": {"c7i.large": 0.1}, "as_of": "yesterday", "source": "list"}},
        {"on_demand": {"usd_hour": {"c7i.large": 0.1}, "as_of": "2026-11-01"}},
        {"on_demand": {"as_of": "2026-11-01", "source": "list"}},
        {"interruption": {"percent": {"c7i.large": [5]}, "as_of": "2026-11-01", "source": "list"}},
        {"services": {"nat_gateway_hour": {"usd": 0, "as_of": "2026-11-01", "source": "list"}}},
    ],
    ids=["a list", "a part", "no day", "no such day", "no source", "no prices", "half a range", "a free service"],
)
def test_a_file_of_another_shape_is_a_sentence(data, content):
    stored(data)
    (data / "aws" / "us-west-2.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(CallerError, match="Restore it from git"):
        prices.machine("aws", "us-west-2", "c7i.large")


def test_a_refresh_takes_no_price_that_is_none(data, monkeypatch):
    before = Answer("on_demand", "asked", {"c7i.large": 0.1})
    assert refresh(monkeypatch, Told(before)).exit_code == 0
    answers = (Answer("on_demand", "asked", {"c7i.large": 0.0}), Answer("spot", "asked", {"c7i.large": [0.0, 0.1]}))
    told = refresh(monkeypatch, Told(*answers), "--again", "--fewer")
    assert told.exit_code == 3
    assert "on_demand could not be read and stays unchanged: it has c7i.large: 0.0" in told.output
    assert "spot could not be read and stays unchanged: it has c7i.large: [0.0, 0.1]" in told.output
    assert read("aws", "us-west-2").parts["on_demand"]["usd_hour"] == {"c7i.large": 0.1}


def test_a_part_of_a_machine_that_costs_nothing_leaves_it_without_a_price(tmp_path):
    """The catalogue leaves units and nanos out where they are 0, as half an answer does."""
    skus = parts("N2", 0.03, 0.004)
    skus[0]["pricingInfo"][0]["pricingExpression"]["tieredRates"][-1]["unitPrice"] = {"currencyCode": "USD"}
    (found,) = gcp.Gcp(Catalog(skus=skus), folder=tmp_path).ask("us-central1", ["on_demand"])  # type: ignore[arg-type]
    assert "n2-standard-8" not in found.found


def test_of_two_prices_of_one_part_the_dearest_counts(tmp_path):
    skus = [*parts("N2", 0.03, 0.004), *parts("N2", 0.02, 0.005)]
    (found,) = gcp.Gcp(Catalog(skus=skus), folder=tmp_path).ask("us-central1", ["on_demand"])  # type: ignore[arg-type]
    assert found.found["n2-standard-8"] == pytest.approx(8 * 0.03 + 32 * 0.005)


def test_a_page_with_a_changed_byte_is_asked_for_again(tmp_path):
    pages.Pages(tmp_path).rows(Listing().page)
    whole = (tmp_path / "00001.json.gz").read_bytes()
    for place in range(len(whole)):
        (tmp_path / "00001.json.gz").write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        assert pages.Pages(tmp_path).rows(Listing().page) == [0, 1, 2], place


def test_pages_of_a_clock_that_was_put_back_are_no_part_of_a_listing(tmp_path):
    pages.Pages(tmp_path).rows(Listing().page)
    earlier, again = (tmp_path / "00000.json.gz").stat().st_mtime - 86_400, Listing()
    pages.Pages(tmp_path, clock=lambda: earlier).rows(again.page)
    assert again.asked == ["", "1", "2"]


@pytest.mark.parametrize("says", ["leads back", "does not end"])
def test_a_listing_without_an_end_is_refused_and_forgotten(tmp_path, monkeypatch, says):
    monkeypatch.setattr(pages, "MOST_PAGES", 20)
    end = 3 if says == "leads back" else 1000
    with pytest.raises(ValueError, match=says):
        pages.Pages(tmp_path / "a").rows(lambda token: ([token], str((int(token or "0") + 1) % end or 1)))
    assert pages.Pages(tmp_path / "a").rows(Listing().page) == [0, 1, 2], "the next refresh asks anew"


_SET_ONE = "import sys; from ops.__main__ import main; from tidemill.prices import table; from pathlib import Path\n"
_SET_ONE += "table.DATA = Path(sys.argv.pop(1)); main(standalone_mode=False)"


def test_prices_that_are_set_at_once_are_all_kept(data):
    command_line = [sys.executable, "-c", _SET_ONE, str(data), *SET]
    names = [f"eu-west-{number}" for number in range(8)]
    running = [subprocess.Popen([*command_line, "--region", name], stdout=subprocess.DEVNULL) for name in names]
    assert [each.wait(120) for each in running] == [0] * len(names)
    assert sorted(region for _, region, _ in own.read(data / own.NAME)) == names


def test_a_price_that_is_set_while_the_process_is_killed_leaves_a_whole_file(data, monkeypatch):
    assert CliRunner().invoke(main, [*SET, "--region", "us-west-2"]).exit_code == 0

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    CliRunner().invoke(main, [*SET, "--region", "us-east-1"])
    own.read.cache_clear()
    assert [region for _, region, _ in own.read(data / own.NAME)] == ["us-west-2"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_or_folder_that_takes_no_file_is_a_sentence(data, monkeypatch, number):
    priced = read("aws", "us-west-2")
    priced.take(Answer("on_demand", "the list", {"c7i.large": 0.1}))
    write(priced)

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number), str(data / "own.json"))

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(command, "_source", lambda _: Told(Answer("on_demand", "asked", {"c7i.large": 0.2})))
    for line in ([*SET, "--region", "us-west-2"], ["prices", "refresh", "--cloud", "aws", "--again"]):
        told = CliRunner().invoke(main, line)
        assert (told.exit_code, "own.json: " in told.output) == (2, True), told.output
    assert prices.on_demand("aws", "us-west-2", "c7i.large").usd == 0.1  # type: ignore[union-attr]
    assert sorted(path.name for path in data.rglob("*") if path.is_file()) == ["us-west-2.json.gz"]


class Half(BaseHTTPRequestHandler):
    """Answers as a service whose connection is cut in the middle of an answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is printed."""


def test_an_answer_of_aws_that_breaks_off_is_a_refusal(data, monkeypatch, tmp_path):
    """It ended the refresh of all regions with a traceback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Half) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setattr(aws, "_CONFIG", Config(retries={"max_attempts": 1}))
        session = boto3.Session("a", "b")
        (answer,) = aws.Aws(session, folder=tmp_path).ask("us-west-2", ["offerings"])
        server.shutdown()
    assert answer.refused is not None
    assert answer.refused.startswith("ResponseParserError: ")


def test_a_cloud_that_does_not_answer_is_told_by_the_reason_alone():
    assert why(URLError(OSError(101, "Network is unreachable"))) == "no answer: [Errno 101] Network is unreachable"
    refused = HTTPError("https://example.com", 403, "Forbidden", Message(), None)
    assert why(refused) == "HTTPError: HTTP Error 403: Forbidden"
