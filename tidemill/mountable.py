"""Folders of a machine that jobs may mount. Everything else may be the machine's own: who writes there, or reaches a
socket there, is root on the machine, whatever a container's own rights are.

Source: https://docs.docker.com/engine/security/#docker-daemon-attack-surface
"""

from posixpath import normpath

MOUNTABLE = {"aws": ("/data", "/mnt"), "gcp": ("/mnt/disks",)}
"""By cloud; on GCP the rest of `/mnt` is Container-Optimized OS's own."""
BUCKETS = "/mnt/disks/gcs"
"""Where machines on GCP mount buckets, which containers get one by one."""
GIVEN = "/var/lib/tidemill"
WRITABLE = tuple(f"{GIVEN}/{name}" for name in ("cache", "scratch"))
"""Folders that each machine on AWS gives its containers, for writing."""
READABLE = (f"{GIVEN}/s3", f"{GIVEN}/worker")
"""Folders that it gives them read-only: buckets, and the worker that others run."""


def mountable(cloud: str, folder: str) -> bool:
    """True if jobs may mount a folder of the team's own: one below those of MOUNTABLE."""
    plain = normpath(folder)
    return any(plain.startswith(f"{each}/") for each in MOUNTABLE[cloud]) and not _is_in(plain, (BUCKETS,))


def given(folder: str, *, read_only: bool) -> bool:
    """True if a machine on AWS gives its containers a folder, mounted like this. Below one for writing, a job could put
    a link to the machine, which the next container would mount."""
    plain = normpath(folder)
    return plain in WRITABLE or (read_only and _is_in(plain, READABLE))


def _is_in(plain: str, those: tuple[str, ...]) -> bool:
    return any(f"{plain}/".startswith(f"{each}/") for each in those)
