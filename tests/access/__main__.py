"""The tables of docs/access.md: `python -m tests.access` rewrites them from the probes."""

from tests.access import reference

reference.PAGE.write_text(reference.text(), encoding="utf-8")
