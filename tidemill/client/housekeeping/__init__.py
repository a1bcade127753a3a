"""Housekeeping: removes jobs, and what no job uses any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.client.site import Site

if TYPE_CHECKING:
    from tidemill.client.housekeeping.removal import Removal


@dataclass(frozen=True)
class Housekeeping:
    """Removals of a pipeline's jobs, and of what no job uses. See `Pipeline.housekeeping`."""

    _site: Site

    def removal(self, *jobs: str) -> Removal:
        """The removal of jobs with their specs, records, outputs, state and logs. Nothing is removed before its
        `carry_out`. Uploads stay, and so does what was fetched or written elsewhere.

        Args:
            jobs: Ids, or names, which mean the newest job of that name.

        Raises:
            CallerError: There is no such job, it has not ended, or another job uses it.
            CloudError: This login may not delete: in a cloud only the stack's owner may.

        Example:
            >>> removal = pipeline.housekeeping.removal("tiles")
            >>> [job.state for job in removal.jobs]
            ['failed']
            >>> removal.carry_out()
            >>> pipeline.jobs()
            []
        """
        from tidemill.client.housekeeping.removal import plan_removal

        return plan_removal(self._site, jobs)

    def cleanup(self, older_than: str | float | None = None) -> Removal:
        """The removal of what interrupted removals have left and, on this machine, of uploads that no job uses, of
        unpacked code and of submits that died. Nothing is removed before its `carry_out`.

        Args:
            older_than: Take jobs too that have ended or are paused, in which nothing was written for so long (`"30d"`,
                or seconds), and that no other job uses; None for no jobs.

        Raises:
            CallerError: `older_than` is no time.
            CloudError: There is something to remove, and this login may not delete.

        Example:
            >>> pipeline.housekeeping.cleanup(older_than="30d").jobs
            []
        """
        from tidemill.client.arguments import age
        from tidemill.client.housekeeping.removal import plan_cleanup

        return plan_cleanup(self._site, age("older_than", older_than))
