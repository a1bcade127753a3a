"""Regions and zones that no cloud has: refused with the one that was probably meant, and with a way out.

Our lists are compared with the provider's on AWS and with the clients' own documents on GCP. Neither shows that a
cloud has opened a region since: then the price table has it, once it was asked for.
"""

import gzip
import json
from pathlib import Path

import googleapiclient
import pulumi_aws as aws
import pytest

from components.config import ConfigError, parse
from components.config.checks.place import check_place, check_region
from components.rooms import cloud_room
from tests.unit.config.examples import GOOD, GOOD_ON_GCP, changed
from tidemill import prices
from tidemill.prices import table


@pytest.mark.parametrize(
    ("good", "region", "meant"),
    [
        (GOOD, "us-west-9", "us-west-"),
        (GOOD, "us-wset-2", "us-west-2"),
        (GOOD, "us-west2", "us-west-2"),
        (GOOD, "US-WEST-2", "us-west-2"),
        (GOOD, "us-east-1a", "us-east-1"),
        (GOOD_ON_GCP, "us-central9", "us-central1"),
        (GOOD_ON_GCP, "us-central1-a", "us-central1"),
        (GOOD_ON_GCP, "europe-west99", "europe-west9"),
    ],
)
def test_a_region_that_there_is_not(good, region, meant):
    config = parse(good)
    with pytest.raises(ConfigError) as caught:
        check_place(config, region, None)
    error = caught.value
    assert (error.what, error.value) == (f"{config.cloud}:region", f'"{region}"')
    assert f"Did you mean {meant}" in error.fix
    assert f"python -m ops prices refresh --cloud {config.cloud} --region {region}" in error.fix


def test_a_region_like_no_other_is_refused_without_a_guess():
    with pytest.raises(ConfigError) as caught:
        check_region("aws", "aws:region", "oregon")
    assert "Did you mean" not in caught.value.fix


@pytest.mark.parametrize(("good", "region"), [(GOOD, "mx-central-1"), (GOOD, "cn-north-1"), (GOOD, "eusc-de-east-1"),
                                              (GOOD_ON_GCP, "northamerica-south1"), (GOOD, None)])  # fmt: skip
def test_a_region_without_prices_is_a_region(good, region):
    assert region not in prices.covered(parse(good).cloud)
    check_place(parse(good), region, None)


def test_a_region_that_the_price_table_knows_is_one(tmp_path: Path, monkeypatch):
    """The way out for a region that is newer than our lists."""
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / "us-west-9.json.gz").write_bytes(gzip.compress(b"{}"))
    monkeypatch.setattr(table, "DATA", tmp_path)
    check_region("aws", "aws:region", "us-west-9")
    with pytest.raises(ConfigError):
        check_region("aws", "aws:region", "us-west-8")


def test_a_mirror_in_ecr_is_in_a_region_of_aws():
    mirrors = {"docker.io": "123456789012.dkr.ecr.us-west-9.amazonaws.com/docker-hub"}
    with pytest.raises(ConfigError) as caught:
        parse({**GOOD, "mirrors": mirrors})
    assert (caught.value.what, caught.value.value) == ('tidemill:mirrors."docker.io"', '"us-west-9"')


@pytest.mark.parametrize("host", ["1234.dkr.ecr.us-west-2.amazonaws.com", "123456789012.dkr.ecr.us-west-2.amazon.com"])
def test_a_mirror_that_is_almost_in_ecr(host):
    with pytest.raises(ConfigError) as caught:
        parse({**GOOD, "mirrors": {"docker.io": f"{host}/docker-hub"}})
    assert "<account of 12 digits>" in caught.value.allowed


@pytest.mark.parametrize("zone", ["z", "us-west-2z", "g"])
@pytest.mark.parametrize("key", ["queues.cpu.machines.zones", "network.create.zone_names"])
def test_a_zone_that_no_region_has(key, zone):
    with pytest.raises(ConfigError) as caught:
        parse(changed(key, ["a", zone]))
    assert caught.value.what == f"tidemill:{key}[1]"
    assert "a to f" in caught.value.allowed


def test_the_list_of_aws_is_the_providers():
    assert {region.value for region in aws.Region} == cloud_room("aws", "keys").REGIONS


def test_the_list_of_gcp_has_every_region_of_storage():
    """Documents that come with Google's client; they also have multi-regions and one that is not open."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    listed = {each["location"] for each in json.loads((folder / "storage.v1.json").read_text())["endpoints"]}
    assert listed - cloud_room("gcp", "keys").REGIONS == {"eu", "us", "us-west8"}
