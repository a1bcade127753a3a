"""`python -m ops owners`: CODEOWNERS, so that what guards the stacks changes with its owners' approval alone."""

import re
import sys

import click

from ops import project
from ops.review.guardrails import GUARDS, LOCKS

FILE = ".github/CODEOWNERS"
_OWNER = re.compile(r"@[\w-]+(/[\w.-]+)?|[^@\s]+@[^@\s]+\.[^@\s]+")
_HEAD = "# Written by `python -m ops owners`; the last line that fits a path counts."
_ALSO = (
    "/stacks/", "/components/", "/shared/", "/Pulumi.yaml", "/requirements*.txt", "/tidemill/completion.py",
    "/tidemill/descriptor.py", "/tidemill/fleet.py", "/tidemill/layout.py",
    "/*.py", "/*/__init__.py", "*.pyc", "*.so",
)  # fmt: skip
"""What decides which resources there are. A stack file has waivers, overrides and `tidemill:allow`. Python takes the
last four in place of packages and sources (`ops.ci.precedence`)."""


@click.command()
@click.option(
    "--owner", "owners", multiple=True, help="Who approves: @org/team, @user or an address; repeat. Default: as before."
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the file is not what would be written.")
def owners(owners: tuple[str, ...], check: bool) -> None:
    """Write .github/CODEOWNERS for stacks/, policy/, .github/, bootstrap/ and the code that reviews and deploys.

    GitHub asks these owners for an approval if branch protection requires one from code owners. Other lines of the file
    stay, above these. Without --owner the owners stay as well; --check then passes if the file has none. Exits 2 if an
    owner is not written as GitHub wants it.
    """
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            raise click.UsageError(f"--owner {owner}: write @user, @organization/team or an e-mail address.")
    path = project.ROOT / FILE
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    owners = owners or _named(before)
    if not owners and check:
        click.echo(f"{FILE} names no owners of what guards the stacks: nothing to check (docs/ci.md, step 4).")
        return
    if not owners:
        raise click.UsageError(f"--owner is missing, and {FILE} has no owners yet: name @organization/team.")
    wanted = text(owners, before)
    if check:
        if wanted != before:
            click.echo(f"{FILE} is out of date: run `python -m ops owners`, and commit the file.", err=True)
            sys.exit(1)
        click.echo(f"{FILE} is up to date.")
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(wanted, encoding="utf-8")
    click.echo(f"Wrote {FILE}.")


def _named(text: str) -> tuple[str, ...]:
    """The owners in our part of the file's text."""
    rows = text.partition(_HEAD)[2].split("\n")
    return next((tuple(row.split()[1:]) for row in rows if row.startswith("/")), ())


def text(owners: tuple[str, ...], before: str = "") -> str:
    """The file's text: others' lines, then ours.

    Args:
        before: Its text until now.
    """
    others = before.partition(_HEAD)[0].rstrip("\n")
    # Most of tidemill/ is the client and the worker, and all of components/ decides which resources there are.
    guards = {f"/{start}" for start, *_ in GUARDS if not start.startswith("components/")}.union(_ALSO)
    # Python takes a folder in place of a module of its name.
    guards |= {
        f"{path.removesuffix('.py')}/" for path in guards if re.fullmatch(r"/tidemill/.*(?<!__init__)\.py", path)
    }
    guarded = sorted(guards - {f"/{each}" for each in LOCKS})
    rows = [f"{path} {' '.join(owners)}" for path in guarded]
    return "\n".join([*([others, ""] if others else []), _HEAD, *rows]) + "\n"
