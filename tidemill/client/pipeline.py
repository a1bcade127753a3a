"""A pipeline: what a stack provisioned, as its users see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidemill.backends import Backend
from tidemill.client.chained import resolve_after
from tidemill.client.estimating import Estimator
from tidemill.client.given import mapping, texts
from tidemill.client.job import Job, quiet
from tidemill.client.journal import newest_specs
from tidemill.client.limit import new_limit
from tidemill.client.mapping import Mapper
from tidemill.client.place import find_place
from tidemill.client.previewing import Previewer
from tidemill.client.queues import QueueInfo, read_queues
from tidemill.client.site import Log, Site, read_site
from tidemill.client.state import settings_of, timeout_of, with_origin
from tidemill.client.status import JobRow, job_row
from tidemill.client.tags import checked_tags
from tidemill.client.telling import told_by
from tidemill.client.training import Trainer
from tidemill.client.upload.meter import Watch, unwatched
from tidemill.descriptor import Descriptor
from tidemill.errors import CallerError
from tidemill.job import Item
from tidemill.ledger import Ledger
from tidemill.store import Store

if TYPE_CHECKING:
    from tidemill.client.frames import DataFrameLike
    from tidemill.client.git_code import Checkout
    from tidemill.client.sweep import Sweep
    from tidemill.client.upload.session import Amount

_PARALLEL = 8


class Pipeline(Mapper, Estimator, Trainer, Previewer):
    """A team's pipeline. Made with `load`; the constructor is for tests and for other stores and backends.

    Example:
        >>> pipeline = Pipeline.load("s3://vision-dev-store/pipeline.json")
        >>> job = pipeline.submit(["python3", "features.py", "{input}", "{output}"], ["s3://raw/1.jpg"], queue="cpu")
        >>> job.wait().succeeded
        1
    """

    def __init__(self, descriptor: Descriptor, store: Store, backend: Backend | None = None) -> None:
        self.site = Site(descriptor, store, backend)

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
        """This machine as a pipeline, with a folder as its store. It works on what is sent until this process ends.

        Every command works on its jobs too; `tidemill run --job JOB --store FOLDER` continues one.

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
        # Imported late: they need fcntl, which Windows does not have.
        from tidemill.backends.here import HereBackend
        from tidemill.backends.local import publish
        from tidemill.client.here import describe_here

        if workers is not None and workers < 1:
            raise CallerError.about("workers", workers, "at least 1", "Leave it out for as many as there are CPUs.")
        descriptor = describe_here(None if folder is None else str(folder), workers)
        return cls(descriptor, publish(descriptor), HereBackend(descriptor, workers))

    def __repr__(self) -> str:
        return f"<Pipeline {self.descriptor.uri}: queues {', '.join(sorted(self.descriptor.queues))}>"

    @property
    def descriptor(self) -> Descriptor:
        """What the stack made: its queues, images and machines.

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
    def backend(self) -> Backend:
        """The cloud's side of the queues, opened when it is first needed."""
        return self.site.backend

    def submit(
        self,
        command: Sequence[str] | None,
        items: str | Path | Iterable[str | Path | Item] | DataFrameLike | Sweep,
        *,
        function: str | None = None,
        items_format: str | None = None,
        items_column: str | None = None,
        queue: str | None = None,
        image: str = "default",
        name: str | None = None,
        cpus: float | None = None,
        memory_mib: int | None = None,
        gpus: int | None = None,
        slots: int = 1,
        chunk_size: int | None = None,
        item_seconds: float | None = None,
        longest_first: str | None = None,
        attempts: int = 3,
        timeout_seconds: float | None = None,
        output: str | None = None,
        env: Mapping[str, str] | None = None,
        code: str | Path | Checkout | None = None,
        libs: Sequence[str | Path] = (),
        pip_index: str | None = None,
        wheelhouse: str | None = None,
        state: bool | Mapping[str, Any] | None = None,
        inputs: Mapping[str, str | Path] | None = None,
        max_parallel: int | None = None,
        max_usd: float | None = None,
        usd_per_item_hour: float | None = None,
        metrics: Mapping[str, str] | None = None,
        notify: str | None = None,
        tags: Mapping[str, str] | None = None,
        layout: Literal["sagemaker"] | None = None,
        force: bool = False,
        after: Sequence[str] = (),
        after_success: Sequence[str] = (),
        confirm: Callable[[Amount], None] = lambda amount: None,
        watch: Watch = unwatched,
        log: Log = quiet,
    ) -> Job:
        """Send a job: the command runs once for every item.

        Everything that would fail later is checked before anything is written. With a `name` a submit may be repeated:
        the same name, items and settings are the same job, and a submit that died half-way is finished.

        Args:
            command: Program and arguments; `{input}`, `{output}`, `{uri}`, `{output_uri}`, `{index}` are filled in;
                None with a `function`.
            items: URIs, paths or `Item`s with metadata; or the path of a list (text, JSON lines, CSV) or of a folder;
                `-` for standard input; a prefix or a pattern of a store, such as `s3://bucket/prefix/**.jpg`; a
                DataFrame of pandas or polars; or a `Sweep`, whose names are placeholders too. For a cloud, files of a
                folder, and paths where the command has `{input}`, are uploaded into the job store.
            function: `module:function` of the image (or of the shipped code), imported once and called with each item.
                What it returns is kept (see `map`); a value that cannot be kept fails its item.
            items_format: `text`, `jsonl` or `csv`, where the list's name does not say it.
            items_column: The column of a CSV list or DataFrame that is the item; its other columns are metadata.
            queue: One of the pipeline's queues; may be left out when there is only one.
            image: One of the queue's images.
            name: Lower-case letters, digits and dashes.
            cpus: Of an item; None for the queue's own, like `memory_mib` (MiB) and `gpus`.
            memory_mib: See `cpus`.
            gpus: See `cpus`.
            slots: Items that run side by side in one container.
            chunk_size: Items that travel together; None to have it chosen.
            item_seconds: Expected seconds of an item, to choose the chunk size by.
            longest_first: What tells how long an item takes: `size` (of files and listed objects), a key of the
                metadata that holds a number, or `job://JOB` for the time that an ended job took for it. The items are
                then numbered from the longest to the shortest, so that no machine stays for one long item at the end.
            attempts: Attempts of an item, 1 to 10. Reclaims do not count.
            timeout_seconds: Limit of one attempt; None for an hour, and with `state` for seven days.
            output: URI prefix of the outputs; None for `<store>/out/<job>`.
            env: Variables of the program, stored in clear text.
            code: A folder that travels with the job: `{code}` in the command, `TIDEMILL_CODE` and first on PYTHONPATH.
                The image's own pip installs its `requirements.txt` once per machine.
                Or a repository, such as `git+https://github.com/team/vision@main#subdirectory=training`.
            libs: Folders that travel with it, each under its own name.
            pip_index: Address of the package index for it; None for the image's own.
            wheelhouse: URI of a prefix with wheels for it; without `pip_index` no index is asked.
            state: True for items with state: each keeps a folder (`{state}`, `TIDEMILL_STATE`) that survives its
                machine. Or settings: `snapshot_seconds` (60), `notice_signal` (`TERM`, `USR1` or `none`) and
                `max_gib` (50).
            inputs: Data that all items read, by name: an object, a prefix, a file or a folder. Each machine fetches it
                once; it is `{name}` in the command and `TIDEMILL_INPUT_<NAME>`.
            max_parallel: How many of its items may run at once; None for as many as the queue has room for.
            max_usd: What the job may cost in USD: by an estimate from what it consumes, its workers end it there.
            usd_per_item_hour: The price to estimate by, for an hour of an item's share of a machine; None for that of
                the queue's machines in the price table.
            metrics: Regular expressions by name, each with a group around a number: what they find in the lines that
                the program prints is kept (`Job.metrics`). A group named `step` is the step of the training.
            notify: Who is told when the job ends: a channel of the stack (`descriptor.channels`), or the https address
                of a webhook, to which a JSON object with `text` is posted.
            tags: Tags for the cost reports of AWS.
            layout: "sagemaker" for programs written for SageMaker: variables such as SM_MODEL_DIR and SM_HPS.
            force: Whether to make another job, where one of this name and these settings exists.
            after: Ids or names of jobs that must be complete (every item has an outcome) before the first item runs.
            after_success: The same, of jobs whose items must all have succeeded.
            confirm: Called before more than 1 GiB or 10,000 files are uploaded; it raises to prevent that.
            watch: Makes the context in which files are uploaded, from the meter that counts them.
            log: Called with each remark, as a sentence.

        Returns:
            The job.

        Raises:
            CallerError: Which argument, its value, what is allowed, what to do. Nothing was created.
            CloudError: The store or the queue refused. The same call may be made again.

        Example:
            >>> job = pipeline.submit(["python3", "features.py", "{input}", "{output}"], "items.txt", queue="cpu")
            >>> job.spec.items_total
            3
        """
        # Imported late: commands that look at jobs start without it.
        from tidemill.client.git_code import Checkout, check_libs, opened
        from tidemill.client.submit import Submission
        from tidemill.client.sweep import fields_of

        place = find_place(
            self.descriptor,
            queue=queue,
            image=image,
            needs={"cpus": cpus, "memory_mib": memory_mib, "gpus": gpus},
            slots=slots,
            whole_cpus=self.site.whole_cpus,
        )
        if callable(command) or callable(function):
            raise CallerError(
                "A Python function is given by its name, because the machines import it: function='module:name', with "
                "code='.' to send its folder. `pipeline.map` takes the function itself."
            )
        words = texts("command", command or (), "a list of words", "Split it, or give it as function=.") or None
        if slots > 1 and self.descriptor.cloud == "gcp":
            log("slots has no effect on GCP: a machine runs as many items side by side as fit.")
        kept = with_origin(self.store, settings_of(state))
        check_libs(libs, code)
        checkout = opened(code)
        told = told_by(self.site, notify, log)
        submission = Submission(
            place=place,
            name=name,
            items=items,
            items_format=items_format,
            items_column=items_column,
            chunk_size=chunk_size,
            item_seconds=item_seconds,
            longest_first=longest_first,
            code=checkout.folder if isinstance(checkout, Checkout) else checkout,
            libs=libs,
            webhook=notify if told and told.topic is None else None,
            force=force,
            confirm=confirm,
            watch=watch,
            fields={
                **fields_of(items),
                "layout": layout,
                "metrics": mapping("metrics", metrics),
                "notify": told,
                "tags": checked_tags(mapping("tags", tags), self.descriptor.cloud, log),
                "code_origin": checkout.origin if isinstance(checkout, Checkout) else None,
                "command": words,
                "function": function,
                "attempts": attempts,
                "timeout_seconds": timeout_of(timeout_seconds, kept),
                "state": kept,
                "output": output,
                "max_parallel": max_parallel,
                "inputs": {name: str(value) for name, value in mapping("inputs", inputs).items()},
                "env": mapping("env", env),
                "keep_values": function is not None,
                "pip_index": pip_index,
                "wheelhouse": wheelhouse,
                "limit": new_limit(self.site, place, max_usd, usd_per_item_hour, log),
                "after": resolve_after(self.site, after, after_success, name),
            },
        )
        return self._act(self.site, submission, log)

    def job(self, job: str) -> Job:
        """A job by its id, or the newest of a name.

        Raises:
            CallerError: It is neither, or there is no such job.

        Example:
            >>> pipeline.job("tiles").id
            'tiles-...'
        """
        return Job.find(self.site, job)

    def jobs(self, limit: int = 20) -> list[JobRow]:
        """The newest jobs of the store, the newest first, from the store alone.

        Example:
            >>> [row.job for row in pipeline.jobs()]
            ['tiles-...']
        """
        newest = list(islice(newest_specs(self.store), limit))
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return list(pool.map(lambda spec: job_row(Ledger(self.store, spec.job), spec), newest))

    def queues(self) -> list[QueueInfo]:
        """Every queue with its state, in the order of their names.

        Example:
            >>> [queue.name for queue in pipeline.queues()]
            ['cpu', 'gpu']
        """
        return read_queues(self.site)
