"""A pipeline for one job, by Pulumi's Automation API: bring it up, submit a folder's files, wait, destroy it.

Run it where `pulumi` is on PATH, with the cloud's login and a backend: ``python ephemeral FOLDER``. Each run has a
pipeline of its own, so two at once do not disturb each other. Ctrl-C destroys it too. What a run that is killed leaves
is destroyed by hand: the README beside this folder says how.
"""

import secrets
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pulumi
from pulumi import automation
from tidemill_pulumi import Pipeline, PipelineArgs, Queue, Rung, StackConfig

import tidemill

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"
COUNT = 'wc -c < "$1" > "$2/bytes.txt"'


def program(name: str) -> None:
    """The stack. It is made for one job, so nothing in it is protected."""
    queue = Queue(images={"default": IMAGE}, capacity=[Rung(market="spot", max_cpus=32)])
    config = StackConfig(team="vision", environment=name, queues={"cpu": queue}, allow=["purge"])
    pipeline = Pipeline(f"vision-{name}", PipelineArgs(config=config))
    pulumi.export("pipeline_uri", pipeline.descriptor_uri)


@contextmanager
def new_stack(name: str) -> Generator[automation.Stack, None, None]:
    """A stack, whose settings are in a folder that goes at the end. Its state is in the backend."""
    with tempfile.TemporaryDirectory() as folder:
        options = automation.LocalWorkspaceOptions(work_dir=folder)
        project = "tidemill-ephemeral"
        stack = automation.create_stack(name, project_name=project, program=partial(program, name), opts=options)
        stack.set_config("aws:region", automation.ConfigValue("us-west-2"))
        yield stack


def _left(*_: object) -> None:
    """Does nothing: the engine has had the signal, too."""


@contextmanager
def engine_works() -> Generator[None, None, None]:
    """Leaves Ctrl-C to the engine, which finishes what it has begun and then ends with an error.

    Without it this program would go on while the engine still holds the stack's lock, and could destroy nothing.
    """
    before = signal.signal(signal.SIGINT, _left)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(stack: automation.Stack, folder: Path) -> int:
    """Returns the number of items that failed."""
    try:
        with engine_works():
            uri = stack.up(on_output=print).outputs["pipeline_uri"].value
        pipeline = tidemill.Pipeline.load(uri)
        job = pipeline.submit(["sh", "-c", COUNT, "sh", "{input}", "{output}"], str(folder), queue="cpu", name="bytes")
        job.wait()
        outcomes = list(job.results())
        for outcome in outcomes:
            print(outcome.index, outcome.status, outcome.output)
        return sum(outcome.status != "succeeded" for outcome in outcomes)
    finally:
        # The outputs go with the store: copy first what shall stay.
        with engine_works():
            stack.destroy(on_output=print, remove=True)


if __name__ == "__main__":
    with new_stack(f"once-{secrets.token_hex(2)}") as new:
        sys.exit(run(new, Path(sys.argv[1])))
