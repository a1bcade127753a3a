"""Contexts: pipelines by name in the user's own config folder, one of them in use."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from tidemill.errors import CallerError
from tidemill.folders import replace_file

FILE = "contexts.json"


@dataclass
class Contexts:
    """Content of the file: URIs of `pipeline.json` by name, and the name in use."""

    current: str | None = None
    pipelines: dict[str, str] = field(default_factory=dict)

    def uri(self, name: str) -> str:
        """The pipeline of a name.

        Raises:
            CallerError: No context has it.
        """
        if name not in self.pipelines:
            if self.pipelines:
                raise CallerError.unknown("context", name, "your config", self.pipelines)
            make = "Give the pipeline's URI once: tidemill use s3://.../pipeline.json."
            raise CallerError(f"There is no context {name!r}, and none has been made yet.", make)
        return self.pipelines[name]


def path() -> Path:
    return Path(click.get_app_dir("tidemill")) / FILE


def read() -> Contexts:
    """The user's contexts; none when there is no file.

    Raises:
        CallerError: The file cannot be read.
    """
    try:
        stored = json.loads(path().read_text())
        current, pipelines = stored.get("current"), stored["pipelines"]
        if all(isinstance(uri, str) for uri in pipelines.values()) and (current is None or current in pipelines):
            return Contexts(current, dict(pipelines))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise CallerError(
            f"{path()} cannot be read: {error.strerror}.", "Give --pipeline, or make it readable."
        ) from None
    except (ValueError, AttributeError, KeyError, TypeError):
        pass
    raise CallerError(
        f"{path()} is damaged.", "Remove it, then give a pipeline's URI: tidemill use s3://.../pipeline.json."
    )


def write(contexts: Contexts) -> None:
    """Replace the file as a whole, so that a reader never sees half of it.

    Raises:
        CallerError: The folder cannot be written.
    """
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, (json.dumps(asdict(contexts), indent=2) + "\n").encode())
    except OSError as error:
        raise CallerError(f"{target} cannot be written: {error.strerror}.", "Use TIDEMILL_PIPELINE instead.") from None


def names() -> list[str]:
    """Names of all contexts, for completion; none when the file cannot be read."""
    try:
        return sorted(read().pipelines)
    except CallerError:
        return []
