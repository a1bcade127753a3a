"""Starting and ending localcloud and building its engine. It cannot prove that the module proxy answers elsewhere."""

from __future__ import annotations

import http.client
import io
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import boto3
import pytest

from localcloud import __main__ as command
from localcloud import daemon, engine
from localcloud.cloud import ROOT, Cloud, CloudError
from localcloud.processes import alive, descendants
from tests.localcloud.waiting import until

pytestmark = pytest.mark.xdist_group("localcloud-cloud")


def script(folder: Path, name: str, text: str) -> Path:
    """An executable shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def run(*words: str, state: Path) -> subprocess.CompletedProcess[str]:
    """`python -m localcloud` as a person types it."""
    line = [sys.executable, "-m", "localcloud", *words, "--state", str(state)]
    return subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, timeout=6000, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reclaim"], "No localcloud runs in"),
        (["reclaim", "--count", "0"], "--count is 0; it must be at least 1"),
        (["reclaim", "--machines", "2"], "unrecognized arguments: --machines 2"),
        (["up", "--job", "tiles"], "--job and --count go with reclaim"),
    ],
)
def test_what_cannot_be_reclaimed_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    try:
        code = command.main([*words, "--state", str(tmp_path / "none")])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_up_env_down(tmp_path: Path) -> None:
    state = tmp_path / "with space"
    up = run("up", "--relation-seconds", "0.1", state=state)
    cloud = Cloud(state)
    try:
        assert up.returncode == 0, up.stderr
        assert 'eval "$(python -m localcloud env' in up.stdout
        assert cloud.healthy()
        pid = cloud.pid
        assert pid
        assert run("up", state=state).returncode == 0
        assert cloud.pid == pid, "a daemon that runs is kept"
        shell = f'eval "$({sys.executable} -m localcloud env --state "{state}")" && env && command -v pulumi'
        seen = subprocess.run(
            ["sh", "-c", shell], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
        ).stdout
        values = dict(line.split("=", 1) for line in seen.splitlines() if "=" in line)
        assert values["AWS_ENDPOINT_URL"] == cloud.url
        assert values["PULUMI_BACKEND_URL"] == f"file://{state}/pulumi"
        assert seen.rstrip().endswith(f"{state}/bin/pulumi")
        first, *rest = values["PATH"].split(os.pathsep)
        assert first == f"{state}/bin"
        assert rest == list(dict.fromkeys([*os.environ["PATH"].split(os.pathsep), str(Path(sys.executable).parent)]))
        below = descendants(pid)
        remembered = state / "pulumi" / ".pulumi"
        remembered.mkdir()
    finally:
        down = run("down", state=state)
    assert down.returncode == 0
    assert cloud.pid is None
    assert not any(alive(left) for left in [pid, *below])
    assert run("down", state=state).returncode == 0
    with Cloud(state):
        assert not remembered.exists(), "an account that starts empty has no stacks"
    refused = run("env", state=state)
    assert refused.returncode == 2
    assert "python -m localcloud up" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_environment_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "the-users-own")
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "the-users-own")
    with Cloud(tmp_path) as cloud:
        assert "the-users-own" not in cloud.env.values()
        assert cloud.env["HOME"] == os.environ["HOME"]
        assert "unset AWS_PROFILE" in cloud.exports()
        monkeypatch.delenv("AWS_PROFILE")
        client = boto3.client(
            "sts",
            "us-west-2",
            endpoint_url=cloud.url,
            aws_access_key_id=cloud.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=cloud.env["AWS_SECRET_ACCESS_KEY"],
        )
        assert client.get_caller_identity()["Arn"] == "arn:aws:iam::123456789012:user/deployer"
        assert cloud.control("denied") == []
        with pytest.raises(CloudError, match="nothing-such"):
            cloud.control("nothing-such")
    assert cloud.pid is None


def test_a_daemon_that_cannot_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(CloudError, match="--no-such-option"):
        Cloud(tmp_path, no_such_option=1).start()
    assert command.main(["down", "--state", str(tmp_path)]) == 0


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_environment_of_a_localcloud_that_never_ran_is_refused(tmp_path, capsys, cloud):
    assert command.main(["env", "--state", str(tmp_path), "--cloud", cloud]) == 2
    assert "up" in capsys.readouterr().err


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without an engine, whose PATH is one folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def fake_go(machine: Path, log: Path) -> None:
    """A Go that "downloads" the SDK's module and "builds" a CLI."""
    module = machine.parent / "module"
    script(module / "python" / "cmd", "pulumi-language-python-exec", "exit 0")
    script(
        machine,
        "go",
        f"""echo "$1" >> "{log}"
if [ "$1" = mod ]; then echo '{{"Dir": "{module}"}}'; exit 0; fi
sleep 0.3; mkdir -p "$GOBIN"; printf '#!/bin/sh\\necho v3.259.0\\n' > "$GOBIN/pulumi"; chmod +x "$GOBIN/pulumi" """,
    )


def test_two_who_need_the_engine_build_it_once(machine: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fake_go(machine, log)
    answers: list[Path | None] = []
    threads = [threading.Thread(target=lambda: answers.append(engine.ensure())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == [engine.cache() / "bin"] * 2
    assert log.read_text().split() == ["mod", "install"]
    assert os.access(engine.cache() / "bin" / "pulumi-language-python-exec", os.X_OK)
    source = engine.cache() / "src"
    assert (source / "go.sum").read_bytes() == (engine.HERE / "go.sum").read_bytes()
    assert f"pulumi/pkg/v3 {engine.VERSION}" in (source / "go.mod").read_text()


def test_a_refusing_proxy_is_an_error(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(machine, "go", "echo 'reading https://proxy/…: 403 Forbidden' >&2; exit 1")
    with pytest.raises(engine.EngineError, match="403 Forbidden"):
        engine.ensure()
    assert command.main(["engine"]) == 2
    told = capsys.readouterr().err
    assert "GOPROXY" in told
    assert not (engine.cache() / "bin" / "pulumi").exists()


def test_no_go_is_an_error_that_says_what_to_do(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine))
    with pytest.raises(engine.EngineError, match=r"go\.dev/dl"):
        engine.ensure()


@pytest.mark.parametrize(
    ("version", "host", "taken"),
    [
        ("v3.259.0", "exit 0", True),
        ("v3.300.1", "exit 0", True),
        ("v4.0.0", "exit 0", True),
        ("v3.258.9", "exit 0", False),
        ("what", "exit 0", False),
        ("v3.300.1", None, False),
        ("v3.300.1", "from localcloud.engine.host import main", False),
    ],
)
def test_the_vendors_cli_is_taken_when_it_is_new_enough(
    machine: Path, version: str, host: str | None, taken: bool
) -> None:
    found = script(machine, "pulumi", f"echo {version}")
    if host:
        script(machine, "pulumi-language-python", host)
    assert engine.on_path() == (found if taken else None)
    if taken:
        engine.programs(machine.parent / "bin")
        written = {path.name for path in (machine.parent / "bin").iterdir()}
        assert written == {"pulumi-resource-aws", "pulumi-resource-gcp", "pulumi-analyzer-policy-python"}


def test_a_program_runs_under_another_home(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: probe\nruntime: python\n")
    (tmp_path / "__main__.py").write_text("import pulumi; pulumi.export('a', 1)\n")
    with Cloud(tmp_path / "cloud") as cloud:
        environment = {key: value for key, value in cloud.env.items() if key != "XDG_CACHE_HOME"}
        environment["HOME"] = str(tmp_path)
        for words in (["stack", "init", "dev"], ["up", "--yes", "--skip-preview"], ["stack", "output", "a"]):
            done = subprocess.run(
                ["pulumi", *words, "--non-interactive"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=6000,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.strip() == "1"


@pytest.mark.parametrize("name", ["pulumi-resource-aws", "pulumi-language-python"])
def test_a_plugin_ends_with_its_engine(name: str, tmp_path: Path) -> None:
    engine.programs(tmp_path / "bin")
    starter = (
        f'import subprocess; p = subprocess.Popen(["{tmp_path}/bin/{name}", "127.0.0.1:1"]); print(p.pid, flush=True)'
    )
    starter += "; import time; time.sleep(300)"
    parent = subprocess.Popen(
        [sys.executable, "-c", starter], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        port = json.loads(parent.stdout.readline())
        assert 1024 < port < 65536
        parent.kill()
        parent.wait(60)
        until(lambda: not alive(pid))
    finally:
        parent.kill()
        parent.wait(60)


@pytest.mark.parametrize(
    "lines", [b"", b"Host: a\r\nX-Amz-Date:20261122\r\n", b"a: b: c \r\nA: \xe9\r\nempty:\r\n", b"ended: early"]
)
def test_headers_are_read_as_by_the_standard_library(lines: bytes) -> None:
    ended = lines if lines.endswith(b"early") else lines + b"\r\nbody"
    ours, theirs = io.BytesIO(ended), io.BytesIO(ended)
    found = daemon.read_headers(ours)
    assert list(found.items()) == list(http.client.parse_headers(theirs).items())
    assert ours.read() == theirs.read()
