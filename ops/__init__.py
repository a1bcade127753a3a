"""The platform team's commands: `python -m ops`."""

import sys
from importlib.util import find_spec

if find_spec("click") is None or find_spec("pulumi") is None:
    sys.stderr.write(
        "This Python lacks what `python -m ops` needs, which is in .venv. Make it with `make .venv/.aws` (or "
        "`.venv/.gcp`), and type `.venv/bin/python -m ops ...`, or `. .venv/bin/activate` first.\n"
    )
    sys.exit(2)
