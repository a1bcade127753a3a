"""A queue of a stack file as it is, and the families that it could name as well."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from components import machines
from components.config import ConfigError, Queue, StackConfig, parse
from components.config.errors import nearest
from components.config.load import read_file
from ops.advise.figures import Book
from ops.advise.rules import Standing, scarcity
from ops.clouds import facts
from ops.project import read_config, stack_file
from tidemill.advice.shapes import regions_of, type_name
from tidemill.advice.sources import LiveSource, Question
from tidemill.errors import CallerError

QUEUES = "tidemill:queues"


@dataclass(frozen=True)
class Subject:
    """The queue that advice is about.

    Attributes:
        path: The stack file, with symbolic links followed.
        raw: Its `config:` as written.
    """

    stack: str
    name: str
    path: Path
    raw: Mapping[str, Any]
    config: StackConfig
    region: str

    @property
    def queue(self) -> Queue:
        return self.config.queues[self.name]


def subject(stack: str, name: str) -> Subject:
    """Read what advice is about.

    Raises:
        click.UsageError: there is no such stack, queue or region, or the file is wrong.
    """
    path = stack_file(stack).resolve()
    config = read_config(stack)
    if name not in config.queues:
        queues = ", ".join(config.queues)
        guess = nearest(name, config.queues)
        meant = f" Did you mean {guess}?" if guess else ""
        raise click.UsageError(f"{name}: the stack {stack} has no such queue.{meant} Queues: {queues}.")
    raw = read_file(path)["config"]
    return Subject(stack, name, path, raw, config, _region(path, config.cloud, raw))


def _region(path: Path, cloud: str, raw: Mapping[str, Any]) -> str:
    key = f"{cloud}:region"
    region = raw.get(key)
    if not isinstance(region, str):
        raise click.UsageError(f"{path.name} does not set {key}, and advice depends on it.")
    try:
        regions_of([region])
    except CallerError as error:
        # The sentences after the first are about options of `tidemill advise`.
        fix = error.fix.partition(". ")[0].rstrip(".")
        end = "" if fix.endswith("?") else "."
        raise click.UsageError(f"{path.name}: {key} is {region!r}, which is no known region. {fix}{end}") from None
    return region


def standing(about: Subject, book: Book) -> Standing:
    config, queue = about.config, about.queue
    families = tuple(book.family(name, queue) for name in queue.machines.families)
    candidates = tuple(book.family(name, queue) for name in _candidates(about))
    return Standing(
        config.cloud,
        queue,
        families,
        tuple(each for each in candidates if each.types),
        _network_zones(config),
        scarcity(book, families),
        book.shortfalls(sum(rung.max_cpus for rung in queue.open_rungs if rung.market == "spot")),
    )


def _network_zones(config: StackConfig) -> int | None:
    network = config.network
    if network.existing:
        subnets = network.existing.subnet_ids
        return len(subnets) or None if isinstance(subnets, list) else None
    return facts(config.cloud).network_zones(config)


def _candidates(about: Subject) -> Iterator[str]:
    """Families with which the file would still be valid, and on which a program that runs today would run too."""
    queue, cloud = about.queue, about.config.cloud
    every = machines.families(cloud)
    present = [each for name in queue.machines.families for each in every[name]]
    needed = min((each.gpu_memory_mib for each in present if each.gpu_memory_mib), default=0)
    for name, types in every.items():
        if name in queue.machines.families or not {each.architecture for each in types} & {*queue.architectures(cloud)}:
            continue
        # A model that fits one GPU of the queue's may not fit a smaller one.
        smallest = min((each.gpu_memory_mib or 0 for each in types), default=0)
        if smallest >= needed and _valid(about, [*queue.machines.families, name]):
            yield name


def _valid(about: Subject, families: Sequence[str]) -> bool:
    keys = {key.partition(":")[2]: value for key, value in about.raw.items() if str(key).startswith("tidemill:")}
    queues = copy.deepcopy(keys["queues"])
    queues[about.name]["machines"] = {**(queues[about.name].get("machines") or {}), "families": [*families]}
    try:
        parse({**keys, "queues": queues})
    except ConfigError:
        return False
    return True


def ask(about: Subject, source: LiveSource) -> Book:
    """The tables' figures of the stack's region, and what its cloud says now.

    Scores are of a set of types, so there are two questions: one for the queue as it is, and one for all that it could
    have. Prices are those of the second one, if it has all that the tables have: prices of different days are not
    compared.

    Raises:
        CallerError: the cloud's SDK is missing, or the login's profile does not exist.
    """
    queue, cloud = about.queue, about.config.cloud
    cpus = sum(rung.max_cpus for rung in queue.open_rungs if rung.market == "spot")
    if not cpus:
        return Book(cloud, about.region)
    book = Book(cloud, about.region)
    rows = [book.family(name, queue) for name in (*queue.machines.families, *_candidates(about))]
    own = [type_name(each) for row in rows[: len(queue.machines.families)] for each in row.types]
    every = [type_name(each) for row in rows for each in row.types]
    live, wide = (source.ask(Question((about.region,), tuple(types), cpus)) for types in (own, every))
    priced = {each.type for each in wide.prices if each.value is not None}
    if any(book.has_spot_price(each) and type_name(each) not in priced for row in rows for each in row.types):
        wide = dataclasses.replace(wide, prices=())
    book = Book(cloud, about.region, live, wide)
    if facts(cloud).ZONES_MAY_CHANGE and (queue.machines.zones or facts(cloud).in_one_zone(queue)):
        book.zoned = source.ask(Question((about.region,), tuple(own), cpus, one_zone=True))
    return book
