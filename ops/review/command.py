"""`python -m ops review`: summarizes previews in one comment."""

import json
import sys
from pathlib import Path

import click
from pydantic import TypeAdapter

from ops.options import STACK, WHERE
from ops.review import guardrails
from ops.review.build import build
from ops.review.document import Base, DocumentError, Preview, parse, read
from ops.review.markdown import render
from ops.review.models import SEVERITIES, Finding, Review, Severity

EXIT_CODES: dict[Severity, int] = {"medium": 3, "high": 4, "critical": 5}
"""Exit codes by the worst finding that counts."""


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--stack", "stacks", type=STACK, multiple=True, help="Preview this stack of stacks/ first; repeat.")
@WHERE
@click.option(
    "--base",
    help="The commit, branch or tag to compare with, where HEAD left it; with --stack `main` unless set. Changes of "
    "what guards the stacks since then are findings: policies, waivers, workflows, CI's identities.",
)
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write the comment to this file.")
@click.option("--json", "target", type=click.Path(path_type=Path, dir_okay=False), help="Write the review as JSON.")
@click.option(
    "--fail-on",
    type=click.Choice(["medium", "high", "critical"]),
    default="critical",
    show_default=True,
    help="The lowest severity that makes the command exit with a code other than 0.",
)
def review(  # noqa: PLR0917
    files: tuple[Path, ...],
    stacks: tuple[str, ...],
    where: str,
    base: str | None,
    markdown: Path | None,
    target: Path | None,
    fail_on: Severity,
) -> None:
    """Review files from `ops preview --json` or `pulumi preview --json`; a folder stands for its *.json files.

    Prints the comment unless --markdown or --json is given. Exits 0 if no finding is as severe as --fail-on, else 3, 4
    or 5 for medium, high or critical. Exits 1 if there is no engine, 2 if an argument or a file is wrong. A failed
    preview is critical.
    """
    if not files and not stacks and not base:
        raise click.UsageError("Pass FILES from `ops preview --json`, or --stack STACK to preview it first.")
    named = _previews(files)
    _once([*named, *((f"--stack {stack}", stack) for stack in stacks)])
    # Reviewing files alone needs neither git nor the engine.
    begun = _base(base or "main") if base or (stacks and where == "localcloud") else None
    previews = [*(each for _, each in named), *_all_previewed(stacks, where, begun)]
    result = build(previews, guardrails=_guardrails(begun) if begun else ())
    text = render(result)
    if markdown:
        _write(markdown, "--markdown", text)
    if target:
        _write(target, "--json", as_json(result))
    if not markdown and not target:
        click.echo(text, nl=False)
    sys.exit(exit_code(result, fail_on))


def as_json(result: Review) -> str:
    """A review in its stable form; docs/review.schema.json describes it."""
    return json.dumps(TypeAdapter(Review).dump_python(result, mode="json"), indent=1, ensure_ascii=False) + "\n"


def exit_code(result: Review, fail_on: Severity) -> int:
    """0, or by the worst finding when it is at least as bad as `fail_on`."""
    worst = result.worst()
    if worst is None or SEVERITIES.index(worst) > SEVERITIES.index(fail_on):
        return 0
    return EXIT_CODES[worst]


def _previews(files: tuple[Path, ...]) -> list[tuple[str, Preview]]:
    paths = [path for each in files for path in (sorted(each.glob("*.json")) if each.is_dir() else [each])]
    if files and not paths:
        raise click.UsageError(f"{files[0]}: this folder has no *.json files.")
    try:
        return [(str(path), read(path)) for path in paths]
    except DocumentError as error:
        raise click.UsageError(str(error)) from None


def _once(named: list[tuple[str, Preview | str]]) -> None:
    """Refuse a stack that is given twice: it would be counted twice."""
    seen: dict[str, str] = {}
    for where, preview in named:
        stack = preview if isinstance(preview, str) else preview.stack
        if stack in seen:
            raise click.UsageError(f"{where}: stack {stack} is also in {seen[stack]}. Pass it once.")
        seen[stack] = where


def _base(ref: str) -> Base:
    from ops import git  # noqa: PLC0415

    return git.base(ref)


def _guardrails(base: Base) -> list[Finding]:
    from ops import git, project  # noqa: PLC0415

    def read(path: str, before: bool) -> str | None:
        now = project.ROOT / path
        if before:
            return git.content(base.commit, path)
        return now.read_text(encoding="utf-8", errors="replace") if now.is_file() else None

    return list(guardrails.findings(git.differing(base.commit), read))


def _all_previewed(stacks: tuple[str, ...], where: str, base: Base | None) -> list[Preview]:
    if not stacks:
        return []
    from ops.preview import configs_of, document_of  # noqa: PLC0415

    compared = base if where == "localcloud" else None
    configs = configs_of(stacks, base)
    return [parse(json.dumps(document_of(stack, config, where, compared)), stack) for stack, config in configs.items()]


def _write(path: Path, option: str, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{option} {path}: {error.strerror}.") from None
