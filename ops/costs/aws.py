"""The bill of an AWS account, or of the accounts that it pays for, from Cost Explorer by the stacks' tags.

Needs `ce:GetCostAndUsage`. Each request costs 0.01 USD.
Sources: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_GetCostAndUsage.html and
https://aws.amazon.com/aws-cost-management/aws-cost-explorer/pricing/
"""

import datetime
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.config import Config

from components.base import ENVIRONMENT_TAG, TEAM_TAG
from ops.clouds.aws_refusals import REFUSALS
from ops.costs.bill import BillError, Cost, after

REGION = "us-east-1"
"""Cost Explorer's only endpoint."""
_REQUEST_USD = 0.01
_METRIC = "UnblendedCost"
_CREDITS = {"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Credit", "Refund"]}}
_CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 1, "mode": "standard"})
_MOST_PAGES = 100

UNTAGGED = (
    f"Cost that carries no tag is untagged. The account that pays has to activate {TEAM_TAG} and {ENVIRONMENT_TAG} as "
    "cost allocation tags (docs/budgets.md); they count from then on, after up to a day."
)


class CostExplorer:
    """Asks Cost Explorer.

    Args:
        client: boto3's; None for the environment's.
    """

    needs_table = False

    def __init__(self, client: Any = None) -> None:
        self._client = client

    def price(self, first: datetime.date, last: datetime.date) -> str:
        """The price of asking. An answer has a page for some thousand teams and months."""
        if self._client is None:
            session = boto3.Session()
            if session.get_credentials() is None:
                raise BillError("there are no AWS credentials; log in to the account that pays")
            self._client = session.client("ce", region_name=REGION, config=_CONFIG)
        return (
            f"Cost Explorer bills {_REQUEST_USD:.2f} USD per request; this asks twice, and once more per further page."
        )

    def costs(self, first: datetime.date, last: datetime.date) -> list[Cost]:
        """The costs by month, team and environment."""
        period = {"Start": first.isoformat(), "End": after(last).isoformat()}
        sums: dict[tuple[datetime.date, str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        try:
            for column, only in enumerate(({"Not": _CREDITS}, _CREDITS)):
                for month, team, environment, amount, currency in self._rows(period, only):
                    sums[month, team, environment, currency][column] += amount
        except REFUSALS as error:
            raise BillError(f"{error}. The login needs ce:GetCostAndUsage (docs/money.md)") from error
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise BillError(f"the answer has another shape: {type(error).__name__}: {error}") from error
        return [
            Cost(month, team, environment, amount, credited, currency)
            for (month, team, environment, currency), (amount, credited) in sums.items()
        ]

    def _rows(self, period: Any, only: Any) -> Iterator[tuple[datetime.date, str, str, float, str]]:
        groups = [{"Type": "TAG", "Key": key} for key in (TEAM_TAG, ENVIRONMENT_TAG)]
        token: dict[str, str] = {}
        seen: set[str] = set()
        # Each page is paid.
        while len(seen) < _MOST_PAGES:
            page = self._client.get_cost_and_usage(
                TimePeriod=period, Granularity="MONTHLY", Metrics=[_METRIC], GroupBy=groups, Filter=only, **token
            )
            for result in page["ResultsByTime"]:
                month = datetime.date.fromisoformat(result["TimePeriod"]["Start"]).replace(day=1)
                for group in result["Groups"]:
                    # `tidemill:team$vision`; nothing follows the sign where there is no tag.
                    team, environment = (key.partition("$")[2] for key in group["Keys"])
                    metric = group["Metrics"][_METRIC]
                    yield month, team, environment, float(metric["Amount"]), metric["Unit"]
            if not (following := page.get("NextPageToken")):
                return
            if following in seen:
                raise ValueError(f"the answer leads back to its page {following!r}")
            seen.add(following)
            token = {"NextPageToken": following}
        raise ValueError(f"more than {_MOST_PAGES} pages")


BILL = CostExplorer
