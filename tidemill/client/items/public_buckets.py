"""Buckets that no grant covers and that jobs read as the public sees them."""

from __future__ import annotations

from tidemill.client.site import Site
from tidemill.errors import CallerError, StoreDeniedError, StoreError
from tidemill.store import Store
from tidemill.store.clients import unsigned_store
from tidemill.store.errors import OTHER_REGION


class PublicBuckets:
    """Buckets of the job store's own cloud, each asked once and without a login whether the public may read there."""

    def __init__(self, site: Site) -> None:
        self._region = site.descriptor.region
        scheme, _, rest = site.store.uri.partition("://")
        self._scheme, self._own = scheme if site.store.is_object_store else None, rest.partition("/")[0]
        self._known: dict[str, bool] = {}

    @property
    def names(self) -> list[str]:
        """Public buckets that were asked for, as `s3://bucket`."""
        return [bucket for bucket, public in self._known.items() if public]

    def reads(self, uri: str) -> bool:
        """True if the public may read in an object's bucket, as the first object there tells.

        Raises:
            CallerError: The bucket is in another region.
            StoreError: The cloud does not answer.
        """
        scheme, _, rest = uri.partition("://")
        bucket, _, name = rest.partition("/")
        if scheme != self._scheme or bucket == self._own:
            return False
        root = f"{scheme}://{bucket}"
        if root not in self._known:
            self._known[root] = self._is_public(root, name)
        return self._known[root]

    def _is_public(self, root: str, name: str) -> bool:
        try:
            # An object that is absent is hidden from whoever may not list, so one that is told of as absent will do.
            Store(unsigned_store(root, self._region), root).size(name)
        except StoreDeniedError:
            return False
        except StoreError as error:
            if error.code != OTHER_REGION:
                raise
            fix = f"Use a copy in {self._region}, or {{uri}} instead of {{input}} if the program reads it by itself."
            raise CallerError(
                f"items: {root} is in another region than the pipeline, which is in {self._region}.", fix, what="items"
            ) from None
        return True
