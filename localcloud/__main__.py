"""python -m localcloud up | env | reclaim | down | engine: an AWS or a GCP on this machine."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path

from localcloud import engine
from localcloud.cloud import CLOUDS, Cloud, CloudError, running
from localcloud.gcp import pubsub
from localcloud.machines import namespaces
from localcloud.reclaim import reclaim
from worker_image import tools

VERBS = ["up", "env", "reclaim", "down", "engine"]
NEXT = """localcloud runs at {url}, its state is in {state}.
  eval "$(python -m localcloud env{option})"     then: pulumi preview --stack …{more}
  python -m localcloud down{option}              ends it and every process of it"""


def main(argv: list[str] | None = None) -> int:
    """Return the exit code: 0, or 2 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m localcloud", description=__doc__)
    parser.add_argument(
        "verb", choices=VERBS, help="reclaim: take Spot machines back; engine: only build what is built"
    )
    parser.add_argument("--state", type=Path, default=Path(".localcloud"), help="folder of its state (.localcloud)")
    parser.add_argument("--cloud", choices=[*CLOUDS], help="the one that runs in the folder by default, else aws")
    parser.add_argument("--port", type=int, help="on 127.0.0.1; a free one by default")
    parser.add_argument("--job", help="reclaim: only machines that work on this job, by its id or name")
    parser.add_argument("--count", type=int, help="reclaim: how many machines (1)")
    options, daemon = parser.parse_known_args(argv)
    _check(options, daemon, parser)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so cleanup runs on this path too
    wanted = None if options.verb == "down" else options.cloud
    kind = CLOUDS[wanted or running(options.state)]
    cloud = kind(options.state, options.port, **_daemon_options(daemon, parser))
    try:
        if options.verb == "engine":
            engine.ensure()
            tools.crane()
            if wanted != Cloud.name:
                pubsub.binary()
        elif options.verb == "up":
            cloud.start()
            option = "" if options.state == Path(".localcloud") else f" --state {shlex.quote(str(options.state))}"
            if reason := namespaces.refusal(cloud.state):
                print(namespaces.notice(reason))
            print(NEXT.format(url=cloud.url, state=cloud.state, option=option, more=cloud.more))
        elif options.verb == "reclaim":
            for name in reclaim(cloud, options.job, options.count or 1):
                print(f"{name} has its notice and is taken back")
        elif options.verb == "env":
            print(cloud.exports())
        else:
            cloud.stop()
    except (CloudError, engine.EngineError, tools.BuildError) as error:
        print(f"localcloud: {error}", file=sys.stderr)
        return 2
    return 0


def _check(options: argparse.Namespace, daemon: list[str], parser: argparse.ArgumentParser) -> None:
    """End with a sentence where an option is for another verb, or out of range."""
    if options.verb == "reclaim" and daemon:
        parser.error(f"unrecognized arguments: {' '.join(daemon)}")
    if options.verb != "reclaim" and (options.job or options.count):
        parser.error("--job and --count go with reclaim")
    if options.count is not None and options.count < 1:
        parser.error(f"--count is {options.count}; it must be at least 1")


def _daemon_options(rest: list[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    """Parse options such as `--reclaim-seconds 2`, which the daemon itself knows and checks."""
    if len(rest) % 2 or not all(name.startswith("--") for name in rest[::2]):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return {name[2:].replace("-", "_"): value for name, value in zip(rest[::2], rest[1::2], strict=True)}


if __name__ == "__main__":
    sys.exit(main())
