"""`python -m ops preview`: what stacks would change, under the policy pack."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from ops import affected, git, orphans
from ops.engine import PreviewRun, mistakes_told
from ops.options import STACKS, WHERE
from ops.project import AnyConfig, read_any
from ops.review.document import Base
from ops.scores import spot_scores


@click.command()
@STACKS
@WHERE
@click.option(
    "--base",
    help="On localcloud: first bring up this commit's (branch's, tag's) version of the stack. A stack whose file has "
    "gone since needs it anywhere.",
)
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
    begun = git.base(base) if base else None
    configs = configs_of(stacks, begun)
    if begun and where == "login" and not all(isinstance(config, affected.Stack) for config in configs.values()):
        raise click.UsageError("--base is for localcloud; --on login compares with your account.")
    if target is None:
        codes = [_shown(stack, config, where, begun) for stack, config in configs.items()]
        sys.exit(next((code for code in codes if code), 0))
    files = _targets(target, list(configs))
    failed = False
    for stack, config in configs.items():
        document = document_of(stack, config, where, begun)
        _write(files[stack], document)
        failed |= document["exit_code"] != 0
        click.echo(_line(document, files[stack]))
    sys.exit(1 if failed else 0)


def configs_of(stacks: tuple[str, ...], base: Base | None) -> Mapping[str, AnyConfig | affected.Stack]:
    """Each stack's config, or what is known of a stack whose file has gone since the base.

    Raises:
        click.UsageError: There is no such stack, or its file is wrong.
    """
    gone = affected.removed(base) if base else {}
    return {stack: gone.get(stack) or read_any(stack) for stack in stacks}


def _shown(stack: str, config: AnyConfig | affected.Stack, where: str, base: Base | None) -> int:
    if isinstance(config, affected.Stack):
        click.echo(f"{stack}: its stack file is removed; its resources stay in the cloud.")
        return 0
    with mistakes_told():
        return PreviewRun(stack, config, where, base).show()


def document_of(
    stack: str, config: AnyConfig | affected.Stack, where: str, base: Base | None = None, *, refresh: bool = False
) -> dict:
    """Preview a stack, optionally after a refresh, and return the preview document (docs/review.md).

    Raises:
        click.ClickException: There is no engine, or it did not finish in time.
    """
    if isinstance(config, affected.Stack):
        return orphans.document(config, base and base.model_dump(), where)
    with mistakes_told():
        document = PreviewRun(stack, config, where, base).document(refresh=refresh)
    return {**document, "spot": spot_scores(document)} if where == "login" and not refresh else document


def _targets(target: Path, stacks: list[str]) -> dict[str, Path]:
    """The file of each stack; fails on unwritable paths before an engine starts."""
    if len(stacks) == 1 and not target.is_dir():
        folder, files = target.parent, {stacks[0]: target}
    else:
        folder, files = target, {stack: target / f"{stack.replace('/', '-')}.json" for stack in stacks}
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
    if document.get("removed"):
        return f"{document['stack']}: its stack file is removed. Written to {path}."
    counts = (document["preview"] or {}).get("changeSummary") or {}
    changes = ", ".join(f"{count} {op}" for op, count in sorted(counts.items())) or "nothing planned"
    told = len(document["policies"])
    failed = "" if document["exit_code"] == 0 else " The preview failed."
    return f"{document['stack']}: {changes}; {told} policy messages. Written to {path}.{failed}"
