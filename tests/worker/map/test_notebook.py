"""The example's notebook in a real kernel. Not proved here: a notebook's front end, and a cloud."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.worker.here import SECONDS

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "notebook" / "walks.ipynb"
# Kernels listen on ports, which the tests' own process may not.
RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
notebook.cells.append(nbformat.v4.new_code_cell(sys.argv[2]))
NotebookClient(notebook, timeout=100).execute()
nbformat.write(notebook, sys.argv[1])
"""
LAST = "print(walks.job.id, sum(row.job.startswith('walks-') for row in pipeline.jobs()))"


def printed(notebook: Path) -> list[str]:
    """What each cell has printed, which may come in several parts."""
    cells = json.loads(notebook.read_text())["cells"]
    texts = [[output["text"] for output in cell.get("outputs", ()) if output.get("name") == "stdout"] for cell in cells]
    return ["".join(part if isinstance(part, str) else "".join(part) for part in parts) for parts in texts if parts]


def run(folder: Path, seed: str) -> list[str]:
    """What its cells print in a kernel of their own; the last line is the named job, and how many there are."""
    copy = Path(shutil.copy(NOTEBOOK, folder / f"walks-{seed}.ipynb"))
    done = subprocess.run(
        [sys.executable, "-c", RUN, copy.name, LAST],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PYTHONHASHSEED": seed, "TIDEMILL_SCRATCH": str(folder / "scratch")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return printed(copy)


def test_its_cells_print_what_it_shows_and_a_new_kernel_goes_on_with_the_job(tmp_path):
    first, again = run(tmp_path, "1"), run(tmp_path, "2")
    assert first[:-1] == again[:-1] == printed(NOTEBOOK)
    assert first[-1] == again[-1]
    assert first[-1].endswith(" 1\n")
