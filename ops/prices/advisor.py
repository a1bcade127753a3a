"""How often Spot machines are taken away, from the feed of AWS's Spot Instance Advisor.

One public file holds all regions. AWS publishes the page, not the feed's shape, so a feed that is gone or looks
different is a refusal, and the table keeps what it has.
Source: https://aws.amazon.com/ec2/spot/instance-advisor/
"""

import re

from ops.prices.public_file import Download, PublicFile

URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_LABEL = re.compile(r"<(?P<most>\d+)%|(?P<low>\d+)-(?P<high>\d+)%|>(?P<least>\d+)%")


class Feed(PublicFile):
    """The feed."""

    source = f"EC2 Spot Instance Advisor, {URL}, Linux"

    def __init__(self, download_file: Download | None = None) -> None:
        super().__init__(URL, download_file)

    def percent(self, region: str) -> dict[str, list[int]]:
        """By type, the percentages of machines between which interruptions of the last month are.

        Raises:
            OSError: The feed could not be read.
            ValueError: The feed is not JSON, or a label of it is not a range.
            KeyError: The feed has another shape, or does not have the region.
        """
        feed = self.content
        ranges = {each["index"]: _range(each["label"]) for each in feed["ranges"]}
        return {kind: ranges[row["r"]] for kind, row in feed["spot_advisor"][region]["Linux"].items()}


def _range(label: str) -> list[int]:
    """`<5%`, `5-10%` or `>20%` as percentages."""
    match = _LABEL.fullmatch(label)
    if match is None:
        raise ValueError(f"{label!r} is not a range of percentages")
    low, high = match["low"] or match["least"] or 0, match["high"] or match["most"] or 100
    return [int(low), int(high)]
