"""``python -m ops.first_account.page`` writes docs/first-account.md from the checks."""

from ops.first_account.check import Check
from ops.first_account.checks import CHECKS
from ops.project import ROOT

PAGE = ROOT / "docs" / "first-account.md"
_HEAD = """\
# The first hour on an account

Tidemill is tested against localcloud. These checks ask a real cloud what localcloud can only assume, of jobs, of
machines and of the platform, the riskiest of each first. Run them once per cloud, on a stack of your own with small
machines, before a team depends on it:

```console
python -m ops first-account --stack vision-dev
```

It asks what needs no hand and prints a line per check; type the others yourself. It submits three small jobs with an
image that has `sh` and `curl` or `wget`, and costs less than a dollar. If an answer differs from the expected one, the
last column says what to change. Then correct the row of [cloud-facts.md](cloud-facts.md), and let localcloud answer the
same.

Written by `python -m ops.first_account.page`.

| | cloud | check | command | expected | if it differs |
|---|---|---|---|---|---|
"""


def page() -> str:
    return _HEAD + "".join(_row(number, check) for number, check in enumerate(CHECKS, 1))


def _row(number: int, check: Check) -> str:
    clouds = ", ".join(cloud.upper() for cloud in check.clouds)
    command = "asked by `first-account`" if check.probe else "by hand"
    cells = [str(number), clouds, check.name, f"`{check.command}` ({command})", check.expect, check.otherwise]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
