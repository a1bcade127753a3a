"""boto3's clients, as the shared interpreter calls them."""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.provider.plan import Props
from localcloud.provider.table import Row

GLOBAL = {"iam", "budgets"}
"""Services whose resources have no region."""
GONE = re.compile(r"NotFound|Unknown$|NoSuch|DoesNotExist|NotExist|not exist|^404$")


class Clients:
    """boto3 clients by service and region; credentials and AWS_ENDPOINT_URL come from the environment."""

    errors: tuple[type[Exception], ...] = (ClientError,)

    def __init__(self, region: str) -> None:
        self.region = region
        self._session = boto3.Session(region_name=region)
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], Any] = {}
        self._account = functools.cache(lambda: self.get("sts").get_caller_identity()["Account"])

    def get(self, service: str, region: str | None = None) -> Any:
        key = (service, region or self.region)
        with self._lock:
            if key not in self._made:
                settings = Config(retries={"mode": "standard"}, s3={"addressing_style": "path"})
                self._made[key] = self._session.client(service, region_name=key[1], config=settings)
            return self._made[key]

    @property
    def account(self) -> str:
        return self._account()

    def words(self, region: str) -> Props:
        """Values that templates may use in addition to a resource's own."""
        location = None if region == "us-east-1" else region
        return {"account": self.account, "partition": self.get("sts").meta.partition, "location": location}

    def call(self, service: str, operation: str, params: Props, region: str) -> Props:
        """Call a boto3 method; a list includes all its pages."""
        client = self.get(service, region)
        if client.can_paginate(operation) and operation.startswith(("describe", "list")):
            return client.get_paginator(operation).paginate(**params).build_full_result()
        return getattr(client, operation)(**params)

    def placed(self, this: Row) -> Props:
        """Properties that a resource takes from the provider's settings unless it sets them itself."""
        return {} if this.service in GLOBAL else {"region": self.region}

    def gone(self, error: Exception) -> bool:
        """Whether an error says that something does not exist."""
        details = getattr(error, "response", {}).get("Error", {})
        return bool(GONE.search(details.get("Code", "")) or GONE.search(details.get("Message", "")))
