"""AWS's price list: public files, one per service and region, read as a stream and without a login.

A file of EC2 has some hundred megabytes; only the rows that the table needs are kept.
Source: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-the-aws-price-list-bulk-api.html
"""

import csv
import datetime
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import BinaryIO

HOST = "https://pricing.us-east-1.amazonaws.com"
SOURCE = "AWS Price List"
_TIMEOUT_SECONDS = 120
_MOST_DAYS = 365

Open = Callable[[str], tuple[BinaryIO, int | None]]
"""A stream of a file, and its length where the server tells it; raises `OSError`."""
Row = Mapping[str, str]


def download(url: str) -> tuple[BinaryIO, int | None]:
    answer = urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)
    length = answer.headers.get("Content-Length")
    return answer, int(length) if length else None


def rows(code: str, region: str, columns: Iterable[str], open_file: Open = download) -> Iterator[Row]:
    """The On-Demand rows of a service in a region, in USD.

    Args:
        code: The service, such as `AmazonEC2`.
        columns: What is read of a row, by the names of the file's header.

    Raises:
        OSError: The file could not be read.
        ValueError: It ends too early, is older than a year, or lacks a column.
        http.client.HTTPException: The connection broke.
    """
    url = f"{HOST}/offers/v1.0/aws/{code}/current/{region}/index.csv"
    stream, length = open_file(url)
    with closing(stream):
        lines = csv.reader(_whole(stream, length, url))
        header = _header(lines, url)
        wanted = {"TermType", "Currency", "Region Code", *columns}
        if lacking := sorted(wanted - header.keys()):
            raise ValueError(f"{url} has no column {', '.join(lacking)}")
        term, currency, place = (header[name] for name in ("TermType", "Currency", "Region Code"))
        for row in lines:
            if len(row) < len(header):
                raise ValueError(f"{url} breaks off in a row of {len(row)} of {len(header)} values")
            if row[term] == "OnDemand" and row[currency] == "USD" and row[place] == region:
                yield {name: row[header[name]] for name in columns}


def _header(lines: Iterator[list[str]], url: str) -> dict[str, int]:
    """The places of the columns, after five lines about the file."""
    about: dict[str, str] = {}
    for row in lines:
        if row[:1] == ["SKU"]:
            day = datetime.date.fromisoformat(about.get("Publication Date", "")[:10])
            if (datetime.datetime.now(datetime.UTC).date() - day).days > _MOST_DAYS:
                raise ValueError(f"{url} is of {day}, more than a year ago")
            return {name: number for number, name in enumerate(row)}
        about[row[0] if row else ""] = row[1] if len(row) > 1 else ""
    raise ValueError(f"{url} is no price list")


def _whole(stream: BinaryIO, length: int | None, url: str) -> Iterator[str]:
    """The lines of a file; an end before its length is an error, not a shorter list."""
    read = 0
    for line in stream:
        read += len(line)
        yield line.decode("utf-8")
    if length is not None and read != length:
        raise ValueError(f"{url} ended after {read:,} of {length:,} bytes")
