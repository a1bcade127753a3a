"""A request for a job: every option of a submit, declared once for Python and for the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, dataclass_transform

from tidemill.request.option import Option, option

if TYPE_CHECKING:
    from pathlib import Path

    from tidemill.client.items.frames import DataFrameLike
    from tidemill.client.items.sweep import Sweep
    from tidemill.client.program.git_code import Checkout
    from tidemill.client.upload.meter import Watch
    from tidemill.client.upload.session import Amount
    from tidemill.code import CodeArchive

    Items = str | Path | Iterable[Any] | DataFrameLike | Sweep

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _declared(cls: type[T]) -> type[T]:
    """A class that `complete` makes a frozen dataclass. Its methods take longer to make than `--help` may take."""
    return cls


def _quiet(text: str) -> None:
    """Says nothing."""


def _always(amount: Amount) -> None:
    """Lets every upload begin."""


@_declared
class JobRequest:
    """A job that a caller asks for. `Pipeline.submit` sends one, `Pipeline.preview` says what that would do.

    Attributes:
        command: Program and arguments; `{input}`, `{output}`, `{uri}`, `{output_uri}`, `{index}` are filled in;
            None with a `function`.
        items: URIs, paths or `Item`s with metadata; or values that JSON has, which a program gets as JSON; or the path
            of a list (text, JSON lines, CSV) or of a folder;
            `-` for standard input; a prefix or a pattern of a store, such as `s3://bucket/prefix/**.jpg`; a
            DataFrame of pandas or polars; or a `Sweep`, whose names are placeholders too. For a cloud, files of a
            folder, and paths where the command has `{input}`, are uploaded into the job store.
        function: `module:function` of the image (or of the shipped code), imported once and called with each item.
            What it returns is kept (see `map`); a value that cannot be kept fails its item.
        items_format: `text`, `jsonl` or `csv`, where the list's name does not say it.
        items_column: The column of a CSV list or DataFrame that is the item; its other columns are metadata.
        queue: One of the pipeline's queues; may be left out when there is only one.
        market: `spot` or `on-demand`, where the queue's owner lets jobs choose; None for what the queue has.
        image: One of the queue's images.
        name: Lower-case letters, digits and dashes.
        cpus: Of an item; None for the queue's own, like `memory_mib` (MiB) and `gpus`.
        memory_mib: See `cpus`.
        memory_max_mib: The most of an item. One that is killed for memory is tried again with twice as much.
        gpus: See `cpus`.
        slots: Items that run side by side in one container.
        chunk_size: Items that travel together; None to have it chosen.
        item_seconds: Expected seconds of an item, to choose the chunk size by.
        longest_first: What tells how long an item takes: `size` (of files and listed objects), a key of the
            metadata that holds a number, or `job://JOB` for the time that an ended job took for it. The items are
            then numbered from the longest to the shortest, so that no machine stays for one long item at the end.
        attempts: Attempts of an item, 1 to 10. Reclaims do not count.
        timeout_seconds: Limit of one attempt; None for an hour, and with `state` for seven days.
        start_within_seconds: The job ends if no machine has begun with it after so long; None for no limit.
        output: URI prefix of the outputs; None for `<store>/out/<job>`.
        env: Variables of the program, stored in clear text.
        secrets: Names of personal secrets (`Pipeline.secrets`), which the program finds as variables. Their values are
            in no object of the store.
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
        changed: Whether to run only items that are new, or whose input, code or settings changed since earlier jobs of
            this name. The job shares the other items' outcomes.
        new: Whether to run only items of which no earlier job of this name has a result.
        after: Ids or names of jobs that must be complete (every item has an outcome) before the first item runs.
        after_success: The same, of jobs whose items must all have succeeded.
        confirm: Called before more than 1 GiB or 10,000 files are uploaded; it raises to prevent that.
        watch: Makes the context in which files are uploaded, from the meter that counts them; None shows nothing.
        log: Called with each remark, as a sentence.
        memory: `memory_mib` as the command line takes it, such as "2G"; or a number of MiB.
        memory_max: `memory_max_mib` in the same way.
        timeout: `timeout_seconds` in the same way, such as "2h"; or a number of seconds.
        item_time: `item_seconds` in the same way.
        start_within: `start_within_seconds` in the same way.
    """

    command: Sequence[str] | None
    items: Items
    _: KW_ONLY
    function: Callable[..., Any] | str | None = option(
        "Instead of PROGRAM: a Python function, imported once and called with each item.",
        metavar="MODULE:NAME",
        must="module:function",
        fix="Name an importable function, such as `features:extract`.",
        field="keep_values",
    )
    items_format: str | None = option("text, jsonl or csv. Default: by the name's ending, else text.", metavar="FORMAT")
    items_column: str | None = option("CSV: the column that is the item. Default: uri.", metavar="NAME")
    queue: str | None = option("Queue of the pipeline. Optional if there is only one.")
    market: str | None = option("Market of the machines, where the queue's owner allows one: spot or on-demand.")
    image: str = option(default="default", help="One of the queue's images.")
    name: str | None = option(
        "Name of the job. The same name, items and settings are the same job.",
        must="a letter a-z, then up to 40 of a-z, 0-9 and '-'",
        fix="Choose another name.",
    )
    cpus: float | None = option("CPUs of an item. Default: the queue's.")
    memory_mib: int | None = option("Memory of an item: 512M, 2G; 96 MiB of it are the worker's. Default: the queue's.")
    memory_max_mib: int | None = option("Most memory of an item: one that runs out of it is tried with twice as much.")
    gpus: int | None = option("GPUs of an item. Default: the queue's.")
    slots: int = option(
        default=1,
        help="Items side by side in one container (AWS).",
        fix="It is how many items run side by side in one container.",
    )
    chunk_size: int | None = option(
        "Items per chunk. Default: chosen automatically.", fix="It is how many items make a chunk."
    )
    item_seconds: float | None = option("How long an item takes: 0.5s, 10m.", flag=("--item-time", "--item-seconds"))
    longest_first: str | None = option(
        "Send long items first, by their size, a column of numbers, or the times of an ended job: job://JOB.",
        metavar="BY",
    )
    attempts: int = option(
        default=3, help="Attempts of an item, 1 to 10.", fix="It is how often an item is tried; 1 means once."
    )
    timeout_seconds: float | None = option(
        "Limit of an attempt: 90s, 2h. Default: 1h; with --state 7d.",
        must="from 1 to 604800 seconds, with state to 2419200",
        fix="It limits one attempt of an item; it cannot be unlimited.",
    )
    output: str | None = option(
        "Prefix of the outputs. Default: out/JOB in the job store.",
        metavar="URI",
        must="a URI such as s3://bucket/prefix",
        fix="Give a URI, or leave it out for <store>/out/<job>.",
    )
    env: Mapping[str, str] | None = option(
        "Variable of the program. Repeatable.",
        metavar="KEY=VALUE",
        must="names made of letters, digits and '_', with text values",
        fix="Give a text by each name.",
    )
    secrets: Sequence[str] = option(
        default=(),
        help="Variable of the program with the value that `tidemill secret set NAME` keeps. Repeatable.",
        flag="--secret",
        metavar="NAME",
        must="names of personal secrets",
        fix="Give a list of names, such as HF_TOKEN.",
    )
    code: str | Path | Checkout | CodeArchive | None = option(
        "Folder to send with the job; its requirements.txt is installed. Or git+https://HOST/REPOSITORY@BRANCH.",
        metavar="DIR|GIT",
    )
    libs: Sequence[str | Path] = option(
        default=(), help="Folder to add to the code, under its own name.", flag="--lib", metavar="DIR"
    )
    pip_index: str | None = option(
        "Package index for requirements.txt. Default: the image's own.",
        metavar="URL",
        must="an address such as https://packages.example.com/simple",
        fix="Give the address of a package index.",
    )
    wheelhouse: str | None = option(
        "Prefix of a store that holds the wheels for requirements.txt.",
        metavar="URI",
        must="a URI such as s3://bucket/wheels",
        fix="Give the URI of a prefix that holds wheels.",
    )
    state: bool | Mapping[str, Any] | None = option("Items keep a folder, {state}, that survives their machine.")
    inputs: Mapping[str, str | Path] | None = option(
        "Data that all items read: an object, a prefix, a file or a folder; {NAME} in PROGRAM. Repeatable.",
        flag="--input",
        metavar="NAME=SOURCE",
        must="names, each a letter a-z, then up to 40 of a-z, 0-9 and '_', with a URI or path",
        fix="Give NAME=SOURCE.",
    )
    start_within_seconds: float | None = option(
        "End the job if no machine has begun with it: 6h.",
        must="from 60 to 2419200 seconds",
        fix="Give a time with its unit, such as 6h, or leave it out.",
    )
    max_parallel: int | None = option(
        "Items that run at once. Default: as many as fit.",
        metavar="N",
        fix="It is how many items run at once; leave it out for all.",
    )
    max_usd: float | None = option("Stop the job at about this cost in USD.", metavar="USD", field="limit")
    usd_per_item_hour: float | None = option("Price per item-hour of --max-usd. Default: the table's.", metavar="USD")
    metrics: Mapping[str, str] | None = option(
        "Number to keep of what the program prints: 'loss=loss: ([0-9.]+)'. Repeatable.",
        flag="--metric",
        metavar="NAME=REGEX",
    )
    notify: str | None = option(
        "Who is told when the job ends: a channel of the stack, or the https address of a webhook.",
        metavar="CHANNEL|URL",
    )
    tags: Mapping[str, str] | None = option(
        "Tag for AWS's cost reports. Repeatable.", flag="--tag", metavar="KEY=VALUE"
    )
    layout: Literal["sagemaker"] | None = None
    force: bool = option(default=False, help="Run every item anew, as another job, even if this job exists.")
    changed: bool = option(
        default=False,
        help="Run only items that are new, or whose input, code or settings changed since earlier jobs of this name.",
    )
    new: bool = option(default=False, help="Run only items that no earlier job of this name has a result of.")
    after: Sequence[str] = option(
        default=(), help="Start when JOB is complete: every item has ended. Repeatable.", metavar="JOB"
    )
    after_success: Sequence[str] = option(
        default=(), help="Start when every item of JOB has succeeded. Repeatable.", metavar="JOB"
    )
    confirm: Callable[[Amount], None] = _always
    watch: Watch | None = None
    log: Callable[[str], None] = _quiet
    memory: str | float | None = None
    memory_max: str | float | None = None
    timeout: str | float | None = None
    item_time: str | float | None = None
    start_within: str | float | None = None


STATE = {
    "snapshot_seconds": Option(
        "How often the state is saved. Default: 1m.",
        "--snapshot-seconds",
        "--snapshot-every",
        must="from 1 to 86400 seconds",
        fix="It is the least time between two snapshots.",
    ),
    "max_gib": Option(
        "Limit of the state folder in GiB. Default: 50.",
        old="--state-gib",
        metavar="GIB",
        must="a number of GiB above 0, at most 4096",
        fix="It limits what a state folder holds.",
    ),
    "notice_signal": Option(
        "What tells a program with state that its machine goes. Default: TERM.",
        must="TERM, USR1 or none",
        fix="It tells the program that its machine goes.",
    ),
    "from_job": Option(
        "Begin with the state that JOB has saved: that of its only item, or of the same index.",
        old="--from-state",
        metavar="JOB",
    ),
}
"""The settings of `state`."""
OPTIONS: dict[str, Option] = {
    "command": Option(
        must="a list of at least one non-empty word, without NUL bytes", fix="Give the program and its arguments."
    ),
    "items": Option(
        "A list (text with one URI or path per line, .jsonl, .csv), a folder, a prefix or a pattern such as "
        "s3://bucket/prefix/**.jpg; - is standard input.",
        metavar="SOURCE",
        field="placeholders",
    ),
    **{name: one.metadata["option"] for name, one in vars(JobRequest).items() if isinstance(one, Field)},
    **{f"state.{name}": one for name, one in STATE.items()},
}
"""By keyword: its option."""


def with_flags(text: str) -> str:
    """A text with the flags of a submit in place of its keywords: `memory_mib=512` is --memory 512."""

    def flag(word: re.Match[str]) -> str:
        keyword, value = word.groups()
        flags = OPTIONS[keyword].flags(keyword) if keyword in OPTIONS else ()
        return word[0] if not flags else f"{flags[0]} {value}" if value else f"`{flags[0]}`"

    return re.sub(r"`([a-z_]+)(?:=([^`]+))?`", flag, text)


def complete() -> None:
    """Make the request a dataclass, before the first one is made."""
    if not is_dataclass(JobRequest):
        dataclass(frozen=True, eq=False)(JobRequest)
