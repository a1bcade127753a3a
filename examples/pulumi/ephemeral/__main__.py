"""A pipeline for one job, by Pulumi's Automation API: bring it up, submit a folder's files, wait, destroy it.

Run it where `pulumi` is on PATH, with the cloud's login and a backend: ``python ephemeral FOLDER``.
"""

import sys
from pathlib import Path

import pulumi
from pulumi import automation
from tidemill_pulumi import Pipeline, PipelineArgs, Queue, Rung, StackConfig

import tidemill

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"
COUNT = 'wc -c < "$1" > "$2/bytes.txt"'


def program() -> None:
    """The stack. It is made for one job, so nothing in it is protected."""
    queue = Queue(images={"default": IMAGE}, capacity=[Rung(market="spot", max_cpus=32)])
    config = StackConfig(team="vision", environment="once", queues={"cpu": queue}, allow=["purge"])
    pipeline = Pipeline("vision-once", PipelineArgs(config=config))
    pulumi.export("pipeline_uri", pipeline.descriptor_uri)


def main(folder: Path) -> int:
    """Returns the number of items that failed."""
    stack = automation.create_or_select_stack("once", project_name="tidemill-ephemeral", program=program)
    stack.set_config("aws:region", automation.ConfigValue("us-west-2"))
    try:
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
        stack.destroy(on_output=print)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
