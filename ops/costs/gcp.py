"""The bill of a billing account's projects on GCP, from its export to BigQuery by the stacks' labels.

Needs `roles/bigquery.jobUser` in a project and `roles/bigquery.dataViewer` on the dataset. BigQuery bills the bytes
that a query reads.
Sources: https://docs.cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage and
https://docs.cloud.google.com/bigquery/docs/reference/rest/v2/jobs/query
"""

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click
import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from components.base import team_labels
from ops.costs.bill import BillError, Cost, after

_TEAM, _ENVIRONMENT = team_labels("", "")
"""Keys of the labels."""
API = "https://bigquery.googleapis.com/bigquery/v2"
MOST_BYTES = 50 << 30
"""A query that would read more is refused by BigQuery: about 0.30 USD."""
_SCOPE = "https://www.googleapis.com/auth/bigquery"
_TABLE = re.compile(r"(?P<project>[\w-]+(:[\w-]+)?)\.\w+\.\w+")
_TIMEOUT_SECONDS = 120
_WAIT_MS = 60_000
_MOST_PAGES = 100
_QUERY = """\
SELECT invoice.month AS month, currency,
  (SELECT ANY_VALUE(value) FROM UNNEST(labels) WHERE key = @team) AS team,
  (SELECT ANY_VALUE(value) FROM UNNEST(labels) WHERE key = @environment) AS environment,
  SUM(CAST(cost AS NUMERIC)) AS amount,
  SUM(IFNULL((SELECT SUM(CAST(credit.amount AS NUMERIC)) FROM UNNEST(credits) AS credit), 0)) AS credits
FROM `{table}`
WHERE invoice.month BETWEEN @first AND @last AND project.id IN UNNEST(@projects)
  AND usage_start_time >= TIMESTAMP(@since) AND usage_start_time < TIMESTAMP(@until)
GROUP BY month, currency, team, environment
"""

UNTAGGED = "Cost that carries no label is untagged: not every service of Google's puts labels on its costs."


class BillingExport:
    """Asks BigQuery.

    Args:
        table: `project.dataset.table` of the export.
        projects: Whose costs are wanted: the stacks'.
        session: An authorised one; None for the login of this machine.
    """

    needs_table = True

    def __init__(self, table: str, projects: Sequence[str], session: Any = None) -> None:
        match = _TABLE.fullmatch(table)
        if match is None:
            raise click.UsageError(
                f"--table {table}: write project.dataset.table, of the billing export (docs/money.md)."
            )
        self._table, self._project = table, match["project"]
        self._projects, self._session = projects, session

    def price(self, first: datetime.date, last: datetime.date) -> str:
        """The price of asking: a dry run, which is free, tells what a query will read."""
        read = int(self._post(self._job(first, last) | {"dryRun": True}).get("totalBytesProcessed", 0))
        return f"BigQuery bills what it reads: at most {read / (1 << 30):.2f} GiB of {self._table}."

    def costs(self, first: datetime.date, last: datetime.date) -> list[Cost]:
        """The costs by invoice month, team and environment."""
        try:
            return [
                Cost(
                    datetime.datetime.strptime(month, "%Y%m").date(),
                    team or "",
                    environment or "",
                    float(amount),
                    float(credited),
                    currency,
                )
                for month, currency, team, environment, amount, credited in self._rows(self._job(first, last))
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise BillError(f"the answer has another shape: {type(error).__name__}: {error}") from error

    def _job(self, first: datetime.date, last: datetime.date) -> dict[str, Any]:
        # Costs of a month's end may come with the next invoice, and corrections with a later one.
        since, until = first - datetime.timedelta(days=35), after(last) + datetime.timedelta(days=5)
        texts = {
            "team": _TEAM,
            "environment": _ENVIRONMENT,
            "first": f"{first:%Y%m}",
            "last": f"{last:%Y%m}",
            "since": since.isoformat(),
            "until": until.isoformat(),
        }
        one = [
            {"name": name, "parameterType": {"type": "STRING"}, "parameterValue": {"value": value}}
            for name, value in texts.items()
        ]
        many = {
            "name": "projects",
            "parameterType": {"type": "ARRAY", "arrayType": {"type": "STRING"}},
            "parameterValue": {"arrayValues": [{"value": each} for each in self._projects]},
        }
        return {
            "query": _QUERY.format(table=self._table),
            "useLegacySql": False,
            "parameterMode": "NAMED",
            "queryParameters": [*one, many],
            "timeoutMs": _WAIT_MS,
            "maximumBytesBilled": str(MOST_BYTES),
        }

    def _rows(self, job: dict[str, Any]) -> Iterator[list[Any]]:
        page = self._post(job)
        for _ in range(_MOST_PAGES):
            if page["jobComplete"]:
                yield from ([cell["v"] for cell in row["f"]] for row in page.get("rows", ()))
                if not page.get("pageToken"):
                    return
            reference = page["jobReference"]
            wanted = {"timeoutMs": str(_WAIT_MS), "location": reference.get("location", "")}
            wanted |= {"pageToken": page["pageToken"]} if page.get("pageToken") else {}
            page = self._ask("GET", f"queries/{reference['jobId']}", params=wanted)
        raise ValueError(f"more than {_MOST_PAGES} pages")

    def _post(self, job: dict[str, Any]) -> dict[str, Any]:
        return self._ask("POST", "queries", json=job)

    def _ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        try:
            if self._session is None:
                credentials, _ = google.auth.default(scopes=[_SCOPE])
                self._session = AuthorizedSession(credentials)
            place = f"{API}/projects/{self._project}/{path}"
            answer = self._session.request(method, place, timeout=_TIMEOUT_SECONDS, **more)
        except (GoogleAuthError, RequestException) as error:
            raise BillError(str(error)) from error
        if answer.status_code != 200:
            raise BillError(f"{answer.status_code} {answer.text[:300]} (docs/money.md lists the roles)")
        try:
            return answer.json()
        except ValueError as error:
            raise BillError(f"the answer is not JSON: {answer.text[:100]}") from error


BILL = BillingExport
