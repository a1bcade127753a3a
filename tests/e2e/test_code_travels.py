"""A folder of code and its packages reach the machines with the minimal rights that the stack gives.

The image is this machine's root; this does not show that another image's pip does the same.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from tests.e2e.team import DATA, Team
from tests.engine.inventory import client

ITEMS = 12
"""In one chunk: tests/worker/test_code.py has workers that install at once."""
PROGRAM = """import os, pathlib, sys
import tinypkg
from helper import twice
text = twice(pathlib.Path(sys.argv[1]).read_text())
pathlib.Path(sys.argv[2], "out.txt").write_text(f"{tinypkg.VALUE} {text}")
"""
WHEEL = {
    "tinypkg.py": "VALUE = 42\n",
    "tinypkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.0\n",
    "tinypkg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tinypkg-1.0.dist-info/RECORD": "",
}


def shipped(folder: Path) -> Path:
    for name, text in {
        "work.py": PROGRAM,
        "helper.py": "def twice(text):\n    return text * 2\n",
        "requirements.txt": "tinypkg==1.0\n",
    }.items():
        (folder / name).write_text(text)
    return folder


def put_wheel(team: Team, folder: Path) -> str:
    path = folder / "tinypkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(name, text)
    client(team.cloud.env, "s3").put_object(Bucket=DATA, Key=f"wheels/{path.name}", Body=path.read_bytes())
    return f"s3://{DATA}/wheels"


def submit(team: Team, items: Path, name: str, code: Path, wheelhouse: str) -> str:
    options = ["--queue", "cpu", "--name", name, "--items", str(items), "--chunk-size", str(ITEMS), "--json"]
    options += ["--code", str(code), "--wheelhouse", wheelhouse]
    return json.loads(team.tidemill("submit", *options, "--", "python3", "work.py", "{input}", "{output}"))["job"]


def test_code_and_its_packages_come_with_the_job_and_a_failing_install_ends_it(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("code", ITEMS, tmp_path)
    wheelhouse = put_wheel(team, tmp_path)
    (tmp_path / "src").mkdir()
    code = shipped(tmp_path / "src")

    job = submit(team, items, "code", code, wheelhouse)
    team.tidemill("wait", job)
    results = team.results(job)
    assert [result["status"] for result in results] == ["succeeded"] * ITEMS
    texts = [team.read(f"{result['output']}out.txt").decode() for result in results]
    assert texts == [f"42 {f'code {n}' + chr(10)}" + f"code {n}\n" * (2 * (n + 1) - 1) for n in range(ITEMS)]
    assert len(team.names(f"jobs/{job}/code/")) == 1

    (code / "requirements.txt").write_text("nosuchpkg==9\n")
    broken = submit(team, items, "code", code, wheelhouse)
    team.tidemill("wait", broken, ok=(1,))
    status = team.status(broken)
    assert (status["state"], status["succeeded"]) == ("cancelled", 0)
    assert "No matching distribution found for nosuchpkg==9" in status["note"]
