"""Start, use and end a GCP: its environment, the command line, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import google.auth
import google.auth.transport.requests
import pytest

from localcloud.cloud import ROOT, CloudError, GcpCloud, running
from localcloud.processes import alive, descendants
from tests.localcloud.waiting import until


def command(*words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `python -m localcloud`."""
    line = [sys.executable, "-m", "localcloud", *words]
    return subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False
    )


def test_the_environment_logs_in_and_holds_nothing_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {"GOOGLE_CREDENTIALS": "x", "PUBSUB_EMULATOR_HOST": "localhost:1", "CLOUDSDK_CORE_PROJECT": "theirs"}
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    with GcpCloud(tmp_path) as cloud:
        assert foreign.keys().isdisjoint(cloud.env)
        for name, value in cloud.settings.items():
            monkeypatch.setenv(name, value)
        credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        session = google.auth.transport.requests.AuthorizedSession(credentials)
        pubsub = os.environ["CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB"]
        assert session.put(f"{pubsub}v1/projects/{project}/topics/t", json={}, timeout=300).status_code == 200
        assert (tmp_path / "credentials.json").stat().st_mode & 0o077 == 0, "nobody else reads the key"
        pid = cloud.pid
        assert pid
        with pytest.raises(CloudError, match="no control 'nothing'"):
            cloud.control("nothing")
    assert not alive(pid)
    assert cloud.pid is None


def test_a_daemon_ends_with_the_process_that_is_killed_in_its_block(tmp_path: Path) -> None:
    program = (
        "import sys, time; from localcloud.cloud import GcpCloud\n"
        "with GcpCloud(sys.argv[1]) as cloud: print(cloud.pid, flush=True); time.sleep(100)"
    )
    line = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            pid = int(process.stdout.readline())
            family = [pid, *descendants(pid)]
            assert len(family) > 1, "Pub/Sub runs in a process of its own"
            assert all(map(alive, family))
        finally:
            process.kill()
    until(lambda: not any(map(alive, family)))


def test_the_command_line_remembers_which_cloud_runs(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    try:
        up = command("up", "--cloud", "gcp", "--state", state, "--time-factor", "5")
        assert up.returncode == 0, up.stderr
        assert "localcloud runs at http://127.0.0.1:" in up.stdout
        assert running(Path(state)) == "gcp"
        assert "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB" in command("env", "--state", state).stdout
        for verb in ("up", "env"):
            refused = command(verb, "--cloud", "aws", "--state", state)
            assert refused.returncode == 2
            assert "belongs to gcp, not to aws. End it with `python -m localcloud down" in refused.stderr
            assert "Traceback" not in refused.stderr
        pid = json.loads((Path(state) / "daemon.json").read_text())["pid"]
    finally:
        assert command("down", "--cloud", "aws", "--state", state).returncode == 0
    assert not alive(pid)
    try:
        # The credentials in the folder are still the GCP's.
        up = command("up", "--state", state)
        assert up.returncode == 0, up.stderr
        assert "AWS_ACCESS_KEY_ID" in command("env", "--state", state).stdout
    finally:
        assert command("down", "--state", state).returncode == 0


def test_an_option_that_the_daemon_does_not_know(tmp_path: Path) -> None:
    refused = command("up", "--cloud", "gcp", "--state", str(tmp_path / "state"), "--speed", "5")
    assert refused.returncode == 2
    assert "unrecognized arguments: --speed" in refused.stderr
