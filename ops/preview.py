"""`python -m ops preview`: what stacks would change, under the policy pack."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from components.config import StackConfig
from localcloud.cloud import CloudError
from localcloud.engine import EngineError
from ops import git
from ops.engine import PreviewRun
from ops.options import WHERE
from ops.project import read_config
from ops.review.document import Base
from ops.scores import spot_scores


@click.command()
@click.option("--stack", "stacks", required=True, multiple=True, help="A stack of stacks/, such as vision-dev; repeat.")
@WHERE
@click.option("--base", help="On localcloud: first bring up this commit's (branch's, tag's) version of the stack.")
@click.option(
    "--json",
    "target",
    type=click.Path(path_type=Path),
    help="Write the preview to this file for `ops review`, and print a line in place of the diff. With several stacks, "
    "a folder that gets <stack>.json of each.",
)
def preview(stacks: tuple[str, ...], where: str, base: str | None, target: Path | None) -> None:
    """Preview stacks with the policy pack and print the diff.

    Exits 1 if a program fails, a mandatory policy is violated or there is no engine; 2 if an argument or a stack file
    is wrong. Creates nothing.
    """
    configs = {stack: read_config(stack) for stack in stacks}
    if base and where == "login":
        raise click.UsageError("--base is for localcloud; --on login compares with your account.")
    found = git.base(base) if base else None
    if target is None:
        with mistakes_told():
            codes = [PreviewRun(stack, config, where, found).show() for stack, config in configs.items()]
        sys.exit(next((code for code in codes if code), 0))
    files = _targets(target, list(configs))
    failed = False
    for stack, config in configs.items():
        document = document_of(stack, config, where, found)
        _write(files[stack], document)
        failed |= document["exit_code"] != 0
        click.echo(_line(document, files[stack]))
    sys.exit(1 if failed else 0)


def document_of(
    stack: str, config: StackConfig, where: str, base: Base | None = None, *, refresh: bool = False
) -> dict:
    """Preview a stack, optionally after a refresh, and return the preview document (docs/review.md).

    Raises:
        click.ClickException: There is no engine, or it did not finish in time.
    """
    with mistakes_told():
        found = PreviewRun(stack, config, where, base).document(refresh=refresh)
    return {**found, "spot": spot_scores(found)} if where == "login" and not refresh else found


@contextmanager
def mistakes_told() -> Iterator[None]:
    """Report why the engine cannot run as one line for the caller."""
    try:
        yield
    except FileNotFoundError as error:
        raise click.UsageError(f"{error.filename} is not on PATH: https://www.pulumi.com/docs/install") from None
    except subprocess.TimeoutExpired as error:
        raise click.ClickException(f"not finished after {error.timeout:.0f} s; stopped") from None
    except (CloudError, EngineError) as error:
        raise click.ClickException(str(error)) from None


def _targets(target: Path, stacks: list[str]) -> dict[str, Path]:
    """The file of each stack; fails on unwritable paths before an engine starts."""
    if len(stacks) == 1 and not target.is_dir():
        folder, files = target.parent, {stacks[0]: target}
    else:
        folder, files = target, {stack: target / f"{stack}.json" for stack in stacks}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--json {target}: {error.strerror}: {folder}.") from None
    return files


def _write(path: Path, document: dict) -> None:
    try:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--json {path}: {error.strerror}.") from None


def _line(document: dict, path: Path) -> str:
    counts = (document["preview"] or {}).get("changeSummary") or {}
    changes = ", ".join(f"{count} {op}" for op, count in sorted(counts.items())) or "nothing planned"
    told = len(document["policies"])
    failed = "" if document["exit_code"] == 0 else " The preview failed."
    return f"{document['stack']}: {changes}; {told} policy messages. Written to {path}.{failed}"
