"""Stores of any URI, for items and outputs outside the job store."""

from __future__ import annotations

import re
from urllib.parse import unquote

from tidemill.errors import CallerError
from tidemill.store.clients import OBJECT_STORES
from tidemill.store.public import PublicStore
from tidemill.store.store import Store

_BUCKET = re.compile(r"[A-Za-z0-9][\w.:-]*$", re.ASCII)


class Stores:
    """Stores of any URI, each bucket opened once. URIs under `home`, the job store, use that store.

    Args:
        home: The job store.
        region: See `Store.open`.
        user_login: See `Store.open`.
        granted: Beginnings of the URIs that the jobs of a pipeline may use. Objects of S3 elsewhere are read as the
            public sees them, where the login may not read. None where that is not known.
    """

    def __init__(
        self,
        home: Store | None = None,
        region: str | None = None,
        user_login: bool = False,
        granted: tuple[str, ...] | None = None,
    ) -> None:
        self._region, self._user_login, self._granted = region, user_login, granted
        self.job_store = home
        self._open: dict[tuple[str, bool], Store] = {}
        self.public: set[str] = set()
        """Further buckets that are read so, as `s3://bucket`."""

    @property
    def home(self) -> Store:
        """The job store, where there is one."""
        assert self.job_store is not None
        return self.job_store

    def locate(self, uri: str) -> tuple[Store, str]:
        """The store and the name in it for a URI; `CallerError` if the scheme is unknown."""
        if self.job_store and uri.startswith(self.job_store.uri + "/"):
            return self.job_store, uri[len(self.job_store.uri) + 1 :]
        scheme, _, rest = uri.partition("://")
        if scheme not in (*OBJECT_STORES, "file"):
            raise CallerError.about("uri", uri, "an s3://, gs:// or file:// URI, or a path", "Give such a URI.")
        bucket, _, name = rest.partition("/")
        if scheme != "file" and not _BUCKET.match(bucket):
            allowed = f"{scheme}://bucket/name, with a bucket of letters, digits, '.', '_', ':' and '-'"
            raise CallerError.about("uri", uri, allowed, "Fill in the bucket.")
        root = "file:///" if scheme == "file" else f"{scheme}://{bucket}"
        public = self._may_be_public(uri, root)
        if (root, public) not in self._open:
            kind = PublicStore if public else Store
            self._open[root, public] = kind.open(root, region=self._region, user_login=self._user_login)
        return self._open[root, public], unquote(name) if scheme == "file" else name

    def _may_be_public(self, uri: str, root: str) -> bool:
        if not root.startswith("s3://") or (self.job_store and f"{self.job_store.uri}/".startswith(f"{root}/")):
            return False
        return root in self.public or (self._granted is not None and not uri.startswith(self._granted))
