"""The parts of a pipeline that people hold by themselves."""

from __future__ import annotations

from tidemill.client.housekeeping import Housekeeping
from tidemill.client.secrets import PersonalSecrets, store_of
from tidemill.client.site import Site
from tidemill.client.templates import Templates
from tidemill.descriptor import Descriptor
from tidemill.services.backend import Backend
from tidemill.store import Store


class PipelineParts:
    """The parts of a pipeline, as opposed to what one does with it."""

    def __init__(self, descriptor: Descriptor, store: Store, backend: Backend | None = None) -> None:
        self.site = Site(descriptor, store, backend)

    @property
    def descriptor(self) -> Descriptor:
        """The stack's descriptor: its queues, images and machines.

        Example:
            >>> sorted(pipeline.descriptor.queues)
            ['cpu', 'gpu']
        """
        return self.site.descriptor

    @property
    def store(self) -> Store:
        """The job store.

        Example:
            >>> pipeline.store.uri == pipeline.descriptor.store
            True
        """
        return self.site.store

    @property
    def secrets(self) -> PersonalSecrets:
        """The caller's own secrets for jobs. A pipeline that several people may submit to keeps none (`CallerError`).

        Example:
            >>> pipeline.secrets.names()
            []
        """
        return PersonalSecrets(store_of(self.site))

    @property
    def templates(self) -> Templates:
        """Submits that are kept, for the stack's schedules and arrivals and for people.

        Example:
            >>> [row.name for row in pipeline.templates.list()]
            ['nightly']
        """
        return Templates(self.site)

    @property
    def housekeeping(self) -> Housekeeping:
        """Removals of jobs, and of what no job uses.

        Example:
            >>> pipeline.housekeeping.removal("tiles").carry_out()
        """
        return Housekeeping(self.site)
