"""Every name in a job store. Lifecycle rules, IAM and the reconciler use these prefixes too.

A chunk's number is in the names of its objects, so that a listing is a status. This module is a leaf of the standard
library alone: components and the reconciler's function use it.
"""

from __future__ import annotations

from typing import NamedTuple

DESCRIPTOR = "pipeline.json"
"""The pipeline's descriptor."""
JOBS = "jobs"
"""Jobs, one folder each. Submitters and workers write here; it may expire."""
OUT = "out"
"""Outputs, a folder per job, unless the caller names another place. They never expire."""
STATE = "state"
"""Snapshots of items with state, a folder per job. They expire after the last one was written."""
UPLOADS = "uploads"
"""Files that people have sent from their own machines, by SHA-256: all jobs share them."""
FLEET = "fleet"
"""Records of machines and the reconciler about the fleet on GCP."""
LOGS = "logs"
"""The archive of logs on AWS."""
MACHINES = "machines"
"""Files that machines fetch when they start on AWS."""
RECONCILER = "reconciler"
"""The source of the reconciler's function, by its hash."""
TEMPLATES = "templates"
"""Templates, a folder each. Submitters write here; the sender reads."""
SENDS = "sends"
"""Notes of what templates have sent, a folder each. Submitters and the sender write here, and delete nothing."""
REMOVALS = "removals"
"""An empty object per job whose removal has begun. Submitters and jobs cannot write here, so they cannot begin one."""

JOURNAL = f"{JOBS}/.journal"
"""An entry per submitted job, newest last, so that `tidemill jobs` reads few names."""
ENDS = f"{JOBS}/.ends"
"""Notes of jobs that have ended, so that `tidemill jobs --state` reads few of them."""
DOCTOR_PROBE = f"{JOBS}/doctor"
"""The one object that `tidemill doctor` overwrites: submitters may not delete. It expires with the jobs."""
CREATE_PROBE = f"{JOBS}/conditional-create"
"""The object by which a submit learns that the store can be written and has a conditional create. It stays there."""

FLEET_ERRORS = f"{FLEET}/errors"
"""A record per machine that could not run its worker: `<time>-<machine>.json`."""
FLEET_ALIVE = f"{FLEET}/alive"
"""An object per machine, overwritten every few minutes while its worker runs."""
FLEET_WARM = f"{FLEET}/warm"
"""An object per queue: the machines that stay without work, one name per line."""
FLEET_UNSERVED = f"{FLEET}/unserved"
"""An object per queue on GCP: the jobs whose messages the reconciler last saw there while no worker ran."""
FLEET_HELD = f"{FLEET}/held"
START_LIMIT = ".start.json"
"""An object per job on GCP that waits for others: what the reconciler publishes once they are complete."""
FLEET_REPORT = f"{FLEET}/reconciler.json"
"""Report of the reconciler's last run."""

SHARDS = "0123456789abcdef"
"""Folders of `done/` and `failed/`: the last hex digit of the chunk. They are listed side by side."""


class ChunkKey(NamedTuple):
    """A chunk of a round of a job."""

    job: str
    round: int
    chunk: int


def code(job: str, sha256: str) -> str:
    return f"{JOBS}/{job}/code/{sha256}.tar.zst"


def end(job: str, rounds: int, state: str) -> str:
    """The note of a job's state once it has so many rounds."""
    return f"{ENDS}/{job}~{rounds}~{state}"


def parse_end(name: str) -> tuple[str, int, str]:
    """Job, rounds and state of a name in `.ends/`."""
    job, rounds, state = name.rsplit("/", 1)[1].split("~")
    return job, int(rounds), state


def identity(job: str) -> str:
    """The job's marks that tell it from others of its name."""
    return f"{JOBS}/{job}/identity.json"


def manifest(job: str) -> str:
    return f"{JOBS}/{job}/manifest"


def out(job: str) -> str:
    return f"{OUT}/{job}"


def spec(job: str) -> str:
    return f"{JOBS}/{job}/job.json"


def cancelled(job: str) -> str:
    """The tombstone."""
    return f"{JOBS}/{job}/cancelled"


def cancelled_round(job: str, number: int) -> str:
    """The tombstone of a round that began after the job had been cancelled once."""
    return of_round(job, number, "cancelled")


def webhook(job: str) -> str:
    """The address that is told of the job's end: a secret."""
    return f"{JOBS}/{job}/webhook"


def told(job: str) -> str:
    """The folder of what was told of the job's ends."""
    return f"{JOBS}/{job}/told"


def told_claim(job: str, number: int, teller: int) -> str:
    """Object that a teller of a round's end writes before it sends the message."""
    return f"{told(job)}/r{number}~{teller}"


def told_now(job: str) -> str:
    """Written to learn the store's own time."""
    return f"{told(job)}/now"


def told_sent(job: str, number: int) -> str:
    """The note that the end of a round was told."""
    return f"{told(job)}/r{number}.sent"


def template_versions(template: str) -> str:
    """The folder of a template's versions."""
    return f"{TEMPLATES}/{template}/versions"


def template_version(template: str, version: int) -> str:
    return f"{template_versions(template)}/{version}.json"


def template_code(template: str, sha256: str) -> str:
    """The packed code of some of a template's versions."""
    return f"{TEMPLATES}/{template}/code/{sha256}.tar.zst"


def sends(template: str, trigger: str) -> str:
    """The folder of the notes about a template's sends by one trigger, such as `schedule nightly`."""
    return f"{SENDS}/{template}/{trigger.replace(' ', '-')}"


def pauses(template: str) -> str:
    """The folder of the notes that pause and resume a template; the newest counts."""
    return f"{SENDS}/{template}/pauses"


NEWEST_FIRST = 9_999_999_999
"""Less than this are the seconds and numbers that `newest_first` takes."""


def newest_first(number: int) -> str:
    """A number as a name that sorts before those of smaller ones, so that one request lists the newest."""
    return f"{NEWEST_FIRST - number:010d}"


def removal(job: str) -> str:
    """The note that a job's removal has begun."""
    return f"{REMOVALS}/{job}"


def held(job: str) -> str:
    return f"{FLEET_HELD}/{job}.json"


def start_limit(job: str) -> str:
    """The note by which the reconciler ends a job that does not start."""
    return f"{FLEET_HELD}/{job}{START_LIMIT}"


def begun(job: str) -> str:
    """The note that the jobs which a job waited for are complete: from now on it runs."""
    return f"{JOBS}/{job}/begun"


def first_item(job: str) -> str:
    """The note of how long a job waited for its first item."""
    return f"{JOBS}/{job}/first_item"


def rounds(job: str) -> str:
    return f"{JOBS}/{job}/rounds"


def round_(job: str, number: int) -> str:
    return f"{JOBS}/{job}/rounds/{number}.json"


def chosen(job: str, number: int, sha256: str) -> str:
    """Items that a large round runs."""
    return f"{of_round(job, number, 'chosen')}/{sha256}"


def shared(job: str, sha256: str) -> str:
    """The document that says where the outcomes are which a job shares with earlier ones."""
    return f"{JOBS}/{job}/shared/{sha256}"


def versions(job: str) -> str:
    """The versions of the items' inputs."""
    return f"{JOBS}/{job}/versions"


def of_round(job: str, number: int, kind: str) -> str:
    """A round's folder: ``done``, ``failed``, ``attempts``, ``drained``, ``progress``, ``spent``,
    ``metrics`` or ``start_failures``."""
    return f"{JOBS}/{job}/r{number}/{kind}"


def state(job: str, item: int) -> str:
    """The folder of an item's state."""
    return f"{STATE}/{job}/{item}"


def snapshots(job: str, item: int) -> str:
    """The folder of an item's snapshots."""
    return f"{state(job, item)}/snapshots"


def snapshot(job: str, item: int, seq: int) -> str:
    """A snapshot; the next one of an item has the next number."""
    return f"{snapshots(job, item)}/{seq}.json"


def seq_of(name: str) -> int:
    """The number of a snapshot's name; `ValueError` for any other name."""
    return int(name.rsplit("/", 1)[1].removesuffix(".json"))


def state_file(job: str, item: int, attempt: str, k: int) -> str:
    """The k-th object in which an attempt keeps files of its item's state. It writes the same object several times."""
    return f"{state(job, item)}/{attempt}/{k}"


def uploaded(sha256: str, name: str) -> str:
    """A file that a person has sent, under its own name."""
    return f"{UPLOADS}/{sha256}/{name}"


def uploaded_tree(sha256: str) -> str:
    """The description of a folder that a person has sent."""
    return f"{UPLOADS}/trees/{sha256}.json"


def _shard(chunk: int) -> str:
    return SHARDS[chunk % 16]


def done(job: str, number: int, chunk: int) -> str:
    return f"{of_round(job, number, 'done')}/{_shard(chunk)}/{chunk}.jsonl"


def failed(job: str, number: int, chunk: int, count: int) -> str:
    """The marker that says how many of a chunk's items failed in a round."""
    return f"{of_round(job, number, 'failed')}/{_shard(chunk)}/{chunk}~{count}"


def attempts(key: ChunkKey) -> str:
    """The folder of a chunk's attempts in a round."""
    return f"{of_round(key.job, key.round, 'attempts')}/{key.chunk}"


def attempt_of(name: str) -> str:
    """The attempt that a name in `attempts/` is a marker of."""
    return name.rsplit("/", 1)[1].partition(".")[0]


def drained(key: ChunkKey, attempt: str) -> str:
    """The marker that says that an attempt ended by a drain. It is in a folder of its own, so that reclaims are
    counted by a listing as long as there were reclaims, not as long as there were chunks."""
    return f"{of_round(key.job, key.round, 'drained')}/{key.chunk}~{attempt}"


def progress(job: str, number: int, chunk: int) -> str:
    return f"{of_round(job, number, 'progress')}/{chunk}"


def metrics(key: ChunkKey, attempt: str) -> str:
    """The metrics that an attempt on a chunk has found."""
    return f"{of_round(key.job, key.round, 'metrics')}/{key.chunk}~{attempt}.jsonl"


def spent(key: ChunkKey, attempt: str, milliseconds: int) -> str:
    """The marker that says how long an attempt on a chunk has held its slots. The last one of an attempt counts."""
    folder = of_round(key.job, key.round, "spent")
    return f"{folder}/{_shard(key.chunk)}/{key.chunk}~{attempt}~{milliseconds}"


def parse_spent(name: str) -> tuple[str, int]:
    """Chunk and attempt, and milliseconds, of a name in `spent/`."""
    attempt, _, milliseconds = name.rsplit("/", 1)[1].rpartition("~")
    return attempt, int(milliseconds)


def start_failure(job: str, number: int, n: int) -> str:
    """The n-th run of the user's code that did not start."""
    return f"{of_round(job, number, 'start_failures')}/{n}"


def published(job: str) -> str:
    """The folder of what was published of a job, where the queue itself cannot be asked."""
    return f"{JOBS}/{job}/published"


def publication(job: str, number: int, k: int, chunks: int) -> str:
    """The record that a round's k-th array, of so many chunks, was published."""
    return f"{published(job)}/r{number}-a{k}~{chunks}"


def parse_published(name: str) -> tuple[int, int, int]:
    """Round, array and number of chunks of a name in `published/`."""
    array, _, chunks = name.rsplit("/", 1)[1].partition("~")
    number, _, k = array.removeprefix("r").partition("-a")
    return int(number), int(k), int(chunks)


def chunk_of_done(name: str) -> int:
    """The chunk of a name in `done/`."""
    return int(name.rsplit("/", 1)[1].removesuffix(".jsonl"))


def chunk_of_marker(name: str) -> tuple[int, str]:
    """The chunk, and what follows it, of a name in `failed/`, `drained/` or `metrics/`."""
    chunk, _, rest = name.rsplit("/", 1)[1].partition("~")
    return int(chunk), rest
