"""Jobs of clouds that commands have seen, so that the shell completes them without a request or a login."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.advice.cache import KEPT_SECONDS, Cache
from tidemill.folders import cache_folder

MOST = 500
"""Jobs of a pipeline that are remembered, the last seen first."""


def known_jobs(pipeline: str) -> list[str]:
    """Ids of a pipeline's jobs that commands of the last week have seen, the last seen first."""
    found = _cache().find(pipeline, KEPT_SECONDS)
    return [job for job in found[1] if isinstance(job, str)] if found and isinstance(found[1], list) else []


def note_jobs(pipeline: str, jobs: Iterable[str], gone: Iterable[str] = ()) -> None:
    """Remember jobs of a cloud's pipeline, and forget those that are `gone`. A store of this machine is looked at when
    it is asked for."""
    if pipeline.startswith(("file://", "/", ".")):
        return
    before, without = known_jobs(pipeline), set(gone)
    after = [job for job in dict.fromkeys([*jobs, *before]) if job not in without][:MOST]
    if after != before:
        _cache().keep(pipeline, after)


def _cache() -> Cache:
    return Cache(cache_folder() / "jobs")
