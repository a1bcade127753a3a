"""A pipeline: what a stack provisioned, as its users see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidemill.client.estimate.request import EstimateRequest
from tidemill.client.health.queue_request import NewQueue, QueueRequest, request_queue
from tidemill.client.health.queues import QueueInfo, read_queues
from tidemill.client.job import Job
from tidemill.client.journal import find_spec
from tidemill.client.keywords import KEYWORDS, naming_mistakes, taking
from tidemill.client.parts import PipelineParts
from tidemill.client.sending.train import training
from tidemill.client.site import read_site
from tidemill.client.watch.job_filter import JobsRequest
from tidemill.client.watch.job_rows import JobRow, job_rows
from tidemill.client.watch.machines import MachineRow, read_machines
from tidemill.request import JobRequest

if TYPE_CHECKING:
    from tidemill.advice.model import ShapeAdvice
    from tidemill.client.estimate.estimate import JobEstimate
    from tidemill.client.items.frames import DataFrameLike
    from tidemill.client.sending.mapping import MappedValues
    from tidemill.client.sending.preview import JobPreview


@naming_mistakes
class Pipeline(PipelineParts):
    """A team's pipeline. Made with `load`; the constructor is for tests and for other stores and backends.

    Example:
        >>> pipeline = Pipeline.load("s3://vision-dev-store/pipeline.json")
    """

    @classmethod
    def load(cls, uri: str) -> Pipeline:
        """Read a stack's descriptor with the caller's own cloud login.

        Args:
            uri: URI of `pipeline.json`, which is the stack's output `pipeline_uri`.

        Raises:
            CallerError: It is not there, or not a descriptor that this version reads.
            CloudError: No login, or the store refused.

        Example:
            >>> Pipeline.load("s3://vision-dev-store/pipeline.json").descriptor.team
            'vision'
        """
        site = read_site(uri)
        return cls(site.descriptor, site.store)

    @classmethod
    def local(cls, folder: str | Path | None = None, *, workers: int | None = None) -> Pipeline:
        """This machine as a pipeline, with a folder as its store. It works on what is sent until this process ends;
        `tidemill run --job JOB --store FOLDER` continues a job.

        Args:
            folder: The job store; None for `.tidemill` in this folder.
            workers: Items side by side; None for as many as there are CPUs.

        Raises:
            CallerError: The folder cannot be made, or not be written to.

        Example:
            >>> here = Pipeline.local("jobs", workers=2)
            >>> list(here.map("os.path:basename", ["a/1.jpg", "a/2.jpg"]))
            ['1.jpg', '2.jpg']
        """
        # Imported late: it needs fcntl, which Windows does not have.
        from tidemill.client.this_machine import open_here

        return cls(*open_here(folder, workers))

    def __repr__(self) -> str:
        return f"<Pipeline {self.descriptor.uri}: queues {', '.join(sorted(self.descriptor.queues))}>"

    @taking(JobRequest, KEYWORDS)
    def submit(self, request: JobRequest) -> Job:
        """Send a job: the command runs once for every item.

        Its arguments are those of `tidemill.JobRequest`. Everything that would fail later is checked before anything is
        written. With a `name` a submit may be repeated: the same name, items and settings are the same job, and a
        submit that died half-way is finished.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do. Nothing was created.
            CloudError: The store or the queue refused. The same call may be made again.

        Example:
            >>> job = pipeline.submit(["python3", "features.py", "{input}", "{output}"], "items.txt", queue="cpu")
            >>> job.spec.items_total
            3
        """
        from tidemill.client.sending.submit import submit

        return submit(self.site, request)

    @taking(JobRequest, KEYWORDS)
    def preview(self, request: JobRequest) -> JobPreview:
        """The effects of a submit with these arguments: it is checked in the same way, and nothing is created or
        written.

        Example:
            >>> pipeline.preview(["python3", "features.py", "{uri}", "{output}"], "items.txt", queue="cpu").items
            3
        """
        from tidemill.client.sending.preview import preview

        return preview(self.site, request)

    @taking(training, KEYWORDS - {"items"})
    def train(self, request: JobRequest) -> Job:
        """Send a job that has hyperparameters in place of items: the command runs once for every combination.

        It is `submit` with other defaults: items with state, one per chunk, a week per attempt, and the variables of
        SageMaker.

        Args:
            command: Program and arguments; `{lr}` is the hyperparameter `lr`, and `{state}` the folder for checkpoints.
            sweep: A `Sweep`, or lists of values by name; None for a single item.
            state: False for items without state, which begin anew when their machine goes; or settings, see `submit`.
            timeout_seconds: Limit of one attempt; None for seven days, and without state for one.
            options: Other arguments of `submit`, such as `queue`, `name` and `code`.

        Example:
            >>> command = ["python3", "train.py", "--lr", "{lr}", "--checkpoints", "{state}"]
            >>> job = pipeline.train(command, {"lr": [1e-3, 3e-4]}, queue="cpu")
            >>> job.spec.items_total
            2
        """
        from tidemill.client.sending.submit import submit

        return submit(self.site, request)

    @taking(training, KEYWORDS - {"items"})
    def preview_training(self, request: JobRequest) -> JobPreview:
        """The same as `preview` for `train`, whose arguments it has.

        Example:
            >>> pipeline.preview_training(["python3", "train.py", "{lr}", "{state}"], {"lr": [1, 2]}, queue="cpu").items
            2
        """
        from tidemill.client.sending.preview import preview

        return preview(self.site, request)

    def map(
        self,
        function: Callable[..., Any] | str,
        items: str | Path | Iterable[Any] | DataFrameLike,
        *more: Iterable[Any],
        queue: str | None = None,
        name: str | None = None,
        code: str | Path | None = None,
        return_exceptions: bool = False,
        progress: bool | None = None,
        **settings: Any,
    ) -> MappedValues:
        """Call a function once for each item, and yield what it returns in the order of the items.

        The job is sent at once; each value comes as soon as it and those before it are committed. The function is
        called with the item, or with those of `uri`, `input`, `output`, `output_uri`, `index` and `meta` that its
        parameters name. The folder of its module travels with the job; of an installed module nothing does. A function
        of the program itself, of a notebook's cell, or inside another travels by value, with what it uses.

        A value is JSON (tuples come back as lists), bytes or a NumPy array, of at most 64 MiB. The `pathlib.Path` of a
        file in the item's output folder comes back as its URI.

        When its reader stops early (a break, Ctrl-C, a failed item), a job without a name is cancelled. A job with a
        name goes on in a cloud, and pauses on this machine; the same call reads and continues it.

        Args:
            function: Any function, or `module:function`.
            items: See `submit`, like `queue`; or values that JSON has, tuples, dataclasses or named tuples.
            more: Further values, for a function of several arguments, as with the builtin `map`.
            name: See `submit`. With one, the same call (function's folder, items and settings) is the same job.
            code: The folder that travels with the job, in place of the function's own.
            return_exceptions: Yield the failure of an item in place of its value; otherwise the first one is raised.
            progress: Show how the job goes; by default in a notebook and on a terminal.
            settings: Others of `submit`, such as `memory`, `attempts` or `max_usd`.

        Raises:
            CallerError: As `submit`, or a function that uses what cannot leave this process.
            ItemFailedError: An item failed; its cause is the traceback on the machine.
            JobEndedError: The job was cancelled, or its rest is lost.

        Example:
            >>> values = pipeline.map(os.path.basename, ["a/1.jpg", "a/2.jpg"], queue="cpu")
            >>> values.job.spec.function
            'posixpath:basename'
        """
        from tidemill.client.items.values import values_of
        from tidemill.client.sending.mapping import call_for_each

        how, given = settings | {"queue": queue, "name": name, "code": code}, values_of(items, *more) if more else items
        return call_for_each(self.site, function, given, how, return_exceptions=return_exceptions, progress=progress)

    @taking(EstimateRequest)
    def estimate(self, request: EstimateRequest) -> JobEstimate:
        """Estimate a job: core hours, wall time at the queue's capacity, USD on Spot and On-Demand.

        Prices are those of the table in this package, of the date that it says. Nothing is written.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do.

        Example:
            >>> pipeline.estimate(250_000, item_time="7.2m", queue="cpu").core_hours
            30000.0
        """
        from tidemill.client.estimate.estimate import estimate

        return estimate(self.site, request)

    def advise(
        self,
        *,
        cpus: int = 0,
        memory: str | float | None = None,
        memory_mib: int = 0,
        gpus: int = 0,
        gpu_memory_gb: float = 0.0,
        arch: Literal["x86_64", "arm64"] | None = None,
        families: Sequence[str] = (),
        regions: Sequence[str] = (),
        queue: str | None = None,
        like: str | None = None,
        hours: float = 1.0,
        one_zone: bool = False,
        limit: int = 20,
        live: bool | None = None,
    ) -> ShapeAdvice:
        """Machines for a piece of work, the cheapest for the work first, each figure with its date and source.

        Args:
            cpus: vCPUs of all machines together, like `memory` and `gpus`.
            memory: Memory as the cloud states it, such as `64G`.
            memory_mib: The same in MiB.
            gpus: NVIDIA GPUs, exactly as many.
            gpu_memory_gb: Memory of each GPU at least, in GB of 10⁹ bytes.
            arch: Processors; None for any.
            families: Only these families of machines, such as `g5`; empty for all.
            regions: Regions of one or both clouds; empty for the pipeline's.
            queue: One of the pipeline's queues: its own machines, in place of all those above.
            like: Id or name of a job: the speed of machines is what jobs of its name have shown.
            hours: How long the work takes.
            one_zone: Compare zones: all machines are in one.
            limit: How many shapes.
            live: Ask the clouds of all regions (True), none (False), or the pipeline's (None).

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do.

        Example:
            >>> advice = pipeline.advise(gpus=4, gpu_memory_gb=24, families=["g5"], live=False)
            >>> advice.shapes[0].count, advice.shapes[0].market
            (4, 'spot')
        """
        from tidemill.advice.shapes import Need
        from tidemill.client.arguments import memory_mib_of
        from tidemill.client.estimate.advise import AdviceRequest, advise

        mib = memory_mib_of(memory, memory_mib or None) or 0
        need = Need(cpus, mib, gpus, gpu_memory_gb, arch, tuple(families))
        wanted = AdviceRequest(need, tuple(regions), queue, like, hours, one_zone=one_zone, limit=limit, live=live)
        return advise(wanted, self.site)

    def job(self, job: str) -> Job:
        """A job by its id, or the newest of a name.

        Raises:
            CallerError: It is neither, or there is no such job.

        Example:
            >>> pipeline.job("tiles").id
            'tiles-...'
        """
        return Job(self.site, find_spec(self.store, job))

    @taking(JobsRequest)
    def jobs(self, request: JobsRequest) -> list[JobRow]:
        """The newest jobs, the newest first. The queue is asked about those that have not ended.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do.

        Example:
            >>> [row.job for row in pipeline.jobs(name="til*", state="failed")]
            ['tiles-...']
        """
        return job_rows(self.site, request)

    def machines(self, *jobs: str) -> list[MachineRow]:
        """The machines that work on jobs, given by ids or names, or on the newest 20 that run; the oldest first.

        Example:
            >>> pipeline.machines("tiles")  # it has ended
            []
        """
        names = jobs or [row.job for row in self.jobs() if row.state in ("waiting", "running")]
        return read_machines(self.site, [find_spec(self.store, name) for name in dict.fromkeys(names)])

    def queues(self) -> list[QueueInfo]:
        """Every queue with its state, in the order of their names.

        Example:
            >>> [queue.name for queue in pipeline.queues()]
            ['cpu', 'gpu']
        """
        return read_queues(self.site)

    @taking(NewQueue)
    def request_queue(self, request: NewQueue) -> QueueRequest:
        """The change of the stack file that adds a queue, for the file's owner. It asks no cloud and changes nothing.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do.

        Example:
            >>> asked = pipeline.request_queue("large", cpus=8, max_cpus=64)
            >>> (asked.owner, asked.patch)
            ('vision', None)
        """
        return request_queue(self.site, request)
