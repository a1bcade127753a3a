"""Files of a submitter's machine reach the machines with the rights that the stack gives."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

from tests.e2e.team import TIMEOUT_SECONDS, Team

PROGRAM = (
    'printf "%s %s %s" "$(basename "$TIDEMILL_INPUT")" "$(cat "$TIDEMILL_INPUT")" "$(cat "$TIDEMILL_INPUT_REF/deep/x")"'
    ' > "$TIDEMILL_OUTPUT/said"'
)


def test_folders_go_up_once_as_items_and_as_a_named_input(team: Team, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for name in ("a.txt", "b.txt", "more/a.txt"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_text(f"I am {name}")
    # A large one goes in parts.
    (photos / "large.txt").write_bytes(b"x" * 11_000_000)
    (tmp_path / "reference/deep").mkdir(parents=True)
    (tmp_path / "reference/deep/x").write_text("with all")
    for path in (*photos.rglob("*"), *tmp_path.glob("reference/deep/*")):
        # The hash of a file that was written a moment ago is not remembered.
        os.utime(path, (1e9, 1e9))
    submit = ["submit", "--queue", "cpu", "--items", str(photos), "--input", f"ref={tmp_path}/reference"]
    submit += ["--shell", "--json"]
    job = json.loads(team.tidemill(*submit, "--", PROGRAM))["job"]
    team.tidemill("wait", job)
    found = {result["uri"].rpartition("/")[2]: result for result in team.results(job)}
    assert {name: result["status"] for name, result in found.items()} == dict.fromkeys(
        ("a.txt", "b.txt", "large.txt"), "succeeded"
    )
    said = {
        team.read(f"{result['output']}said").decode() for result in team.results(job) if "large" not in result["uri"]
    }
    assert said == {"a.txt I am a.txt with all", "a.txt I am more/a.txt with all", "b.txt I am b.txt with all"}
    names = team.names("uploads/")
    assert len(names) == 6
    assert f"uploads/{hashlib.sha256(b'x' * 11_000_000).hexdigest()}/large.txt" in names
    again = subprocess.run(
        ["tidemill", *submit, "--", PROGRAM],
        env=team.person,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    assert "Uploading" not in again.stderr
    assert team.names("uploads/") == names
