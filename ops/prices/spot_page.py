"""Spot prices without a login, from the file behind AWS's page of Spot prices.

One public file holds all regions, with one price per type: that of its cheapest zone. AWS publishes the page, not the
file's shape, and the file before it once stood still for years. So a file that is gone, old or looks different is a
refusal, and the table keeps what it has.
Source: https://aws.amazon.com/ec2/spot/pricing/
"""

import datetime
from collections.abc import Iterator
from typing import Any

from ops.prices.public_file import Download, PublicFile

URL = "https://website.spot.ec2.aws.a2z.com/spot.json"
_MOST_DAYS = 30
_REGIONS = {
    "us-east": "us-east-1",
    "us-west": "us-west-1",
    "eu-ireland": "eu-west-1",
    "apac-sin": "ap-southeast-1",
    "apac-syd": "ap-southeast-2",
    "apac-tokyo": "ap-northeast-1",
}
"""The file's old names of regions."""


class Page(PublicFile):
    """The file."""

    source = f"EC2 Spot Pricing page, {URL}, of each type its cheapest zone"

    def __init__(self, download_file: Download | None = None) -> None:
        super().__init__(URL, download_file)

    def usd(self, region: str) -> dict[str, list[float]]:
        """USD per hour by type, as a pair of the same price.

        Raises:
            OSError: The file could not be read.
            ValueError: The file is not JSON, is older than 30 days, or does not have the region.
            KeyError: The file has another shape.
        """
        content = self.content
        if (datetime.datetime.now(datetime.UTC).date() - self.as_of).days > _MOST_DAYS:
            raise ValueError(f"{URL} is of {self.as_of}, more than {_MOST_DAYS} days ago")
        regions = {_REGIONS.get(each["region"], each["region"]): each for each in content["config"]["regions"]}
        if region not in regions:
            raise ValueError(f"{URL} does not have {region}")
        return {kind: [usd, usd] for kind, usd in _linux(regions[region])}


def _linux(region: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for generation in region["instanceTypes"]:
        for size in generation["sizes"]:
            shown = {column["name"]: column["prices"]["USD"] for column in size["valueColumns"]}
            # A type without a price has `N/A*`.
            if "linux" in shown and shown["linux"].replace(".", "", 1).isdigit() and float(shown["linux"]):
                yield size["size"], float(shown["linux"])
