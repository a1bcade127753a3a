"""The reasons why a submit is another job than an earlier one of its name."""

from __future__ import annotations

import difflib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

import zstandard

from tidemill import layout
from tidemill.client.sending.identity import IDENTITY, JobIdentity, image_content, known_identity
from tidemill.client.site import Site
from tidemill.code import PACKAGE, CodeArchive
from tidemill.errors import StoreError
from tidemill.job import JobSpec
from tidemill.visible import visible

SHOWN = 4
COMPARED_BYTES = 2 << 20
"""The largest package that is read to count lines."""
_UNPACKED_BYTES = 32 << 20
_FILE_BYTES = 256 << 10
_MOST_PAIRS = 1_000_000
"""Of lines that are compared: with many equal lines, the time grows with more than this number."""
_APART = {"name", "code", "inputs", "resources"}
"""Parts of the identity that are compared by themselves."""


class Difference(NamedTuple):
    """The difference to an earlier job of the same name.

    Attributes:
        job: The earlier job.
        reasons: Settings, items and files that differ, in words; `keyword=value` is of the new job.
        goes_on: The command that goes on with the earlier job.
    """

    job: str
    reasons: tuple[str, ...]
    goes_on: str

    def words(self, job: str, goes_on: str | None = None) -> str:
        """A sentence about the new job; `goes_on` is what to call where no command is typed."""
        more = len(self.reasons) - SHOWN
        reasons = ", ".join(self.reasons[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"{job} differs from {self.job}: {reasons}; `{goes_on or self.goes_on}` goes on with that one."


def difference(
    site: Site, earlier: JobSpec, spec: JobSpec, identity: JobIdentity, packed: CodeArchive | None
) -> Difference | None:
    """The difference of a job to an earlier one; None where it was sent again by force."""
    known = known_identity(site.store, earlier.job)
    reasons: list[str] = []
    if known is not None:
        reasons += _files(site, earlier, known.files, identity.files, packed)
        if known.items != identity.items:
            more = f" ({spec.items_total}, {earlier.items_total} there)"
            reasons.append("items" + more * (spec.items_total != earlier.items_total))
        if known.chunk_size != identity.chunk_size:
            reasons.append(_setting("chunk_size", known.chunk_size, identity.chunk_size))
    elif earlier.code != spec.code:
        # A job of an earlier version does not say of which files it is.
        reasons.append("code")
    reasons += _settings(earlier, spec)
    if known is None and not reasons:
        reasons = ["items or program"]
    goes_on = site.run_command(earlier.job) or f"tidemill wait {earlier.job}"
    return Difference(earlier.job, tuple(reasons), goes_on) if reasons else None


def _settings(earlier: JobSpec, spec: JobSpec) -> Iterator[str]:
    for name in sorted(IDENTITY - _APART):
        before, now = getattr(earlier, name), getattr(spec, name)
        if before != now:
            yield _setting(name, before, now)
    for name, now in spec.resources.model_dump().items():
        if (before := getattr(earlier.resources, name)) != now:
            yield _setting(name, before, now)
    if earlier.image_ref is not None and image_content(earlier.image_ref) != image_content(spec.image_ref):
        yield "the image itself"


def _setting(name: str, before: Any, now: Any) -> str:
    if isinstance(now or before, (int, float)) and not isinstance(now or before, bool):
        said = f"no {name}" if now is None else f"`{name}={now:g}`"
        return f"{said} ({'none' if before is None else f'{before:g}'} there)"
    return "values of the function" if name == "keep_values" else name.removesuffix("_seconds")


# ---- files ---------------------------------------------------------------------------------------------------------


def _files(
    site: Site, earlier: JobSpec, before: Mapping[str, str], now: Mapping[str, str], packed: CodeArchive | None
) -> Iterator[str]:
    changed = [name for name, digest in now.items() if before.get(name, digest) != digest]
    lines = _changed_lines(site, earlier, changed, packed)
    for name in changed:
        count = lines.get(name)
        yield _said(name) + (f" ({count} line{'s' * (count != 1)})" if count else "")
    yield from (f"{_said(name)} (new)" for name in sorted(now.keys() - before.keys()))
    yield from (f"{_said(name)} (gone)" for name in sorted(before.keys() - now.keys()))


def _said(name: str) -> str:
    if name.startswith("{"):
        return f"input {visible(name.strip('{}'))}"
    if name.startswith("/"):
        near = os.path.relpath(name)
        return visible(name if near.startswith("..") else near)
    return visible(" ".join(name.removeprefix(f"{PACKAGE}:").split()))


def _changed_lines(site: Site, earlier: JobSpec, names: list[str], packed: CodeArchive | None) -> dict[str, int | None]:
    """How many lines differ, of files of a small package."""
    if packed is None or earlier.code is None or not names or packed.path.stat().st_size > COMPARED_BYTES:
        return {}
    package = layout.code(earlier.job, earlier.code)
    try:
        if (site.store.size(package) or 0) > COMPARED_BYTES:
            return {}
        before = _texts(site.store.get(package), names)
    except StoreError:
        return {}
    now = _texts(packed.path.read_bytes(), names)
    return {name: _count(before[name], now[name]) for name in names if name in before and name in now}


def _texts(package: bytes, names: list[str]) -> dict[str, list[str]]:
    """Lines of files of a package, as far as they are texts of a moderate size."""
    texts = {}
    try:
        data = zstandard.ZstdDecompressor().stream_reader(package).read(_UNPACKED_BYTES)
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for member in tar:
                if member.name in names and member.size <= _FILE_BYTES and (file := tar.extractfile(member)):
                    texts[member.name] = file.read().decode().splitlines()
    except (tarfile.TarError, zstandard.ZstdError, UnicodeDecodeError, KeyError):
        # It is for a remark alone.
        return texts
    return texts


def _count(before: list[str], now: list[str]) -> int | None:
    """How many lines differ; None where so many do that to tell would take long."""
    before, now = _after_equal(before, now)
    before, now = _after_equal(before[::-1], now[::-1])
    if len(before) * len(now) > _MOST_PAIRS:
        return None
    steps = difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
    return sum(max(end - start, last - first) for kind, start, end, first, last in steps if kind != "equal")


def _after_equal(before: list[str], now: list[str]) -> tuple[list[str], list[str]]:
    """Both without the lines that they begin with in common."""
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
    return before[equal:], now[equal:]
