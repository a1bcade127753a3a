"""``python -m tidemill.explain.page docs/explain.md`` writes the page of all causes."""

import sys
from collections.abc import Iterator
from pathlib import Path

from tidemill.explain.causes import CAUSES, KINDS, Cause
from tidemill.request import with_flags

_HEAD = """\
# Why does my job not progress?

```console
tidemill explain JOB
```

It looks at the job's records, its queue and its machines, and prints the causes that hold, the one to look at first in
front. It needs no permission that a submitter does not have, and takes at most 12 requests to the cloud. What a login
may not see is listed as `unknown`; nothing is guessed.

```
act (A12): the image cannot be pulled: CannotPullContainerError: ... not found (4 of 4 attempts)
   container 0f6e...:0
   the stack's owner: push the image, or give the role access
   docs/explain.md#a12
```

Exit codes: 0 for *well* and *turn*, 1 for *act* and *never*. `--json` has the same with stable keys. `tidemill doctor`
checks the pipeline; `tidemill explain` is about one job.

## Classes

"""
_RULES = """
A cause that needs an action comes before one that needs none, and otherwise causes come in the order of the table
below: is the job over, does the queue take it, do machines come, do containers start, do items end, is it fast enough?

A healthy queue shows some reasons for a moment, such as AWS Batch while it scales from zero. Such a reason counts only
when nothing was committed and nothing has started for ten minutes, or when `wait` has seen it for a minute. Before that
it stands under *turn* and says that it may pass. In the first five minutes of a job only facts count that no waiting
changes, such as a disabled queue or an item that is larger than every machine.

The cloud's own words follow ours. A reason that we do not know is printed as the cloud gives it.

## Causes

Written by `python -m tidemill.explain.page docs/explain.md`. *May pass* marks causes that the rule above holds back.

| | class | cause | seen in | do |
|---|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    kinds = "".join(f"- *{kind}*: {text}.\n" for kind, text in KINDS.items())
    return _HEAD + kinds + _RULES + "".join(_rows())


def _rows() -> Iterator[str]:
    for cause in CAUSES:
        kind = f"{cause.kind}, may pass" if cause.passing else cause.kind
        anchor = f'<a id="{cause.code.lower()}"></a>{cause.code}'
        seen, do = with_flags(cause.seen), with_flags(cause.do)
        yield f"| {anchor} | {kind} | {cause.title} | {seen} | {_who(cause)}{do} |\n"


def _who(cause: Cause) -> str:
    return "the stack's owner: " if cause.owner else ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
