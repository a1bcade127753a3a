"""Advice for the next time: pure rules, each with its figures and the flag to type.

No rule asks for less than the largest item has used, and none speaks of less than 30 items.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill import capacity, machines, prices, services
from tidemill.client.plan.chunks import CHUNK_SECONDS
from tidemill.client.report.model import Advice, Distribution, SlotUse
from tidemill.descriptor import Machine, Queue, Resources
from tidemill.figures import duration
from tidemill.machines import MachineType
from tidemill.services import Service

ENOUGH = 30
SPARE = 1.2
"""Factor by which the advised size exceeds the largest one seen."""
MEMORY_STEP = 256
WASTED = 0.6
"""Less used than this part of what was asked for is worth a word."""
SHORT_CHUNK_SECONDS = 30.0
MANY_CHUNKS = 100
FAILED_PART = 0.05
STAGED_PART = 0.3
RECLAIM_PART = 0.25
"""A chunk that takes a larger part of the time between two reclaims of it loses too much work."""
WORTH = 0.05
"""A saving below this part of the cost is not worth a word."""
_KILLED = ("memory", "poison", "signal")


@dataclass(frozen=True)
class Experience:
    """Facts that rules look at.

    Attributes:
        machines: The machine types that ran the job, as the descriptor has them, with hours of their slots.
        whole_cpus: Items can ask for whole CPUs only.
        chunk_hours: Hours that all chunks took together.
    """

    cloud: str
    machines: Sequence[tuple[Machine, float]]
    asked: Resources
    container: int
    whole_cpus: bool
    timeout_seconds: float
    chunk_size: int
    executions: int
    reasons: Mapping[str, int]
    reclaims: int
    wall: Distribution | None = None
    cores: Distribution | None = None
    memory_mib: Distribution | None = None
    chunk_seconds: Distribution | None = None
    chunk_hours: float = 0.0
    slot_use: SlotUse | None = None
    usd: float | None = None
    """Cost of the job; None where nothing is paid."""
    queue: Queue | None = None
    """The job's; None where the pipeline no longer has it, and on a machine of one's own."""
    region: str = ""

    @property
    def service(self) -> Service:
        return services.of_queue(self.cloud, self.queue)

    def fit(self, machine: Machine, **changes: float) -> int:
        """Items side by side on a machine, if they ask for something else."""
        return capacity.slots(self.service, machine, self.asked.model_copy(update=changes), self.container)

    def gain(self, **changes: float) -> str | None:
        """Describe the saving if the job's items asked for something else; None where it is little."""
        hours = sum(slot_hours for _, slot_hours in self.machines)
        saved, most, words = 0.0, 0.0, ""
        for machine, slot_hours in self.machines:
            before, after = self.fit(machine), self.fit(machine, **changes)
            if after > before > 0:
                part = slot_hours * (1 - before / after) / hours
                saved += part
                if part > most:
                    most, words = part, f"{after} items run side by side on a {machine.type} instead of {before}"
        if saved < WORTH:
            return None
        usd = f", about {self.usd * saved:.2f} of {self.usd:.2f} USD" if self.usd and self.usd >= 0.1 else ""
        return f"{words}, {100 * saved:.0f} % cheaper in all{usd}"


def advise(seen: Experience) -> list[Advice]:
    """Changes that are worth it, most important first."""
    if seen.executions < ENOUGH:
        return []
    return [*_memory(seen), *_cpus(seen), *_chunks(seen), *_staging(seen)]


def _memory(seen: Experience) -> Iterator[Advice]:
    used, asked = seen.memory_mib, seen.asked.memory_mib
    if used is None:
        return
    # The worker takes its own share of what a container asks for.
    needed = MEMORY_STEP * math.ceil((used.max * SPARE + capacity.WORKER_MIB / seen.container) / MEMORY_STEP)
    died = seen.reasons.get("memory", 0)
    if died > FAILED_PART * seen.executions:
        more = max(needed, MEMORY_STEP * math.ceil(1.5 * asked / MEMORY_STEP))
        text = (
            f"{died} of {seen.executions} items reached their memory limit of {asked} MiB; p99 is {used.p99:.0f} MiB."
        )
        yield _more_memory(seen, more, text)
    elif not died and used.max > 0.9 * asked and needed > asked:
        text = f"The largest item used {used.max:.0f} of {asked} MiB, which is near its limit."
        yield _more_memory(seen, needed, text)
    elif used.max < WASTED * asked and not any(seen.reasons.get(reason) for reason in _KILLED):
        gain = seen.gain(memory_mib=needed) if needed < asked else None
        if gain:
            text = f"The largest item used {used.max:.0f} of {asked} MiB: {gain}."
            yield Advice("memory", f"--memory {needed}", text)


def _more_memory(seen: Experience, mib: int, text: str) -> Advice:
    """More memory; or that no machine of the queue has it, and which one would, if any."""
    queue = seen.queue
    if queue is None or any(seen.fit(machine, memory_mib=mib) for machine in queue.machines):
        return Advice("memory", f"--memory {mib}", text)
    larger = _smallest(seen, queue, mib)
    if larger is None:
        text += f" No machine type of {seen.cloud} has room for {mib} MiB per item: make the items smaller."
        return Advice("memory", "", text)
    text += (
        f" No machine of the queue has room for {mib} MiB per item. The smallest type that has is {larger.type}: ask "
        f"the stack's owner for its family, {larger.family}."
    )
    return Advice("memory", f"--memory {mib}", text)


def _smallest(seen: Experience, queue: Queue, mib: int) -> MachineType | None:
    """The type with the least memory that has room for such an item: of those whose price is known, or of all."""
    able = [
        machine
        for machine in machines.table(seen.cloud).types
        if machine.architecture == queue.architecture
        and bool(machine.gpus) == bool(seen.asked.gpus)
        and capacity.slots(seen.service, machine, seen.asked.model_copy(update={"memory_mib": mib}), seen.container)
    ]
    priced = [each for each in able if prices.machine(seen.cloud, seen.region, each.type, gpus=each.gpus)]
    return min(priced or able, key=lambda each: (each.memory_mib, each.cpus, each.type), default=None)


def _cpus(seen: Experience) -> Iterator[Advice]:
    cores, wall, asked = seen.cores, seen.wall, seen.asked.cpus
    if cores is None or wall is None or wall.p50 < 0.1:
        # CPU time has a resolution of 0.01 s.
        return
    step = 1.0 if seen.whole_cpus else 0.25
    needed = max(step, step * math.ceil(cores.p95 / step))
    if cores.p50 > 0.9 * asked and cores.max > 1.3 * asked and needed > asked:
        text = f"Half of the items keep {cores.p50:.2g} cores busy and some {cores.max:.2g}; they ask for {asked:g}."
        yield Advice("cpus", f"--cpus {needed:g}", text)
        return
    # Items that use more at times take longer with less.
    longest = wall.max * max(1.0, cores.max / needed)
    gain = seen.gain(cpus=needed) if needed < asked and cores.p95 < WASTED * asked else None
    if gain and longest < seen.timeout_seconds:
        text = f"95 % of the items keep at most {cores.p95:.2g} of {asked:g} cores busy: {gain}."
        yield Advice("cpus", f"--cpus {needed:g}", text)


def _chunks(seen: Experience) -> Iterator[Advice]:
    chunk = seen.chunk_seconds
    if chunk is None:
        return
    between = seen.chunk_hours * 3600 / seen.reclaims if seen.reclaims >= 3 else math.inf
    if seen.chunk_size > 1 and chunk.p50 > RECLAIM_PART * between:
        smaller = max(1, int(seen.chunk_size * RECLAIM_PART * between / chunk.p50))
        if smaller < seen.chunk_size:
            text = f"A chunk takes {duration(chunk.p50)} and is reclaimed every {duration(between)} on average."
            yield Advice("chunk", f"--chunk-size {smaller}", text)
    elif chunk.p50 < SHORT_CHUNK_SECONDS and chunk.items >= MANY_CHUNKS:
        longest = min(CHUNK_SECONDS, RECLAIM_PART * between)
        larger = int(seen.chunk_size * longest / max(chunk.p50, 0.1))
        if larger > seen.chunk_size:
            text = f"A chunk takes {duration(chunk.p50)}, so much of a machine's time goes into handing chunks out."
            yield Advice("chunk", f"--chunk-size {larger}", text)


def _staging(seen: Experience) -> Iterator[Advice]:
    use = seen.slot_use
    if use is None or use.held <= 0 or use.fetch + use.upload <= STAGED_PART * use.held:
        return
    part = round(100 * (use.fetch + use.upload) / use.held)
    text = f"Slots waited {part} % of their time for data: keep it in the pipeline's own region."
    # The input of an item is fetched while those before it run.
    yield Advice("staging", "--chunk-size 8" if seen.chunk_size < 4 and use.fetch > use.upload else "", text)
