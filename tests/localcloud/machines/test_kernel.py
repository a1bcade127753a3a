"""What becomes of tests that need namespaces where the kernel refuses them, and what localcloud says there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.machines import namespaces, plain
from localcloud.machines.namespaces import Ports
from tests.kernel import ALLOWED

ROOT = Path(__file__).parents[3]
REFUSED = [sys.executable, "-m", "tests.no_namespaces"]
ONE_OF_TWO = """
import pytest

@pytest.mark.namespaces
def test_needs_them(): pass

def test_does_not(): pass
"""


def run(command: list[str], folder: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if key not in ("CI", ALLOWED)}
    env = known | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("more", "counts"),
    [({}, "1 passed, 1 skipped"), ({"CI": "true"}, "1 passed, 1 error"), ({"CI": "true", ALLOWED: "1"}, "1 skipped")],
)
def test_a_test_that_needs_namespaces_is_left_out_and_counted_except_in_ci(tmp_path, more, counts):
    (tmp_path / "test_two.py").write_text(ONE_OF_TWO)
    pytest_ = [sys.executable, "-m", "pytest", "-p", "tests.kernel", "-p", "no:cacheprovider", "--rootdir", "."]
    done = run([*REFUSED, *pytest_, "test_two.py"], tmp_path, **more)
    assert counts in done.stdout
    assert ("1 tests left out: the kernel refuses namespaces" in done.stdout) == ("error" not in counts)
    assert (done.returncode == 0) == ("error" not in counts)


def test_the_kernel_is_asked_before_anything_is_built():
    done = run([*REFUSED, sys.executable, "-S", "-m", "localcloud.machines.namespaces"])
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Machines and containers run as plain processes here: the kernel refuses namespaces (")
    assert lines[1].startswith("Left out: ")
    user = "root" if os.geteuid() == 0 else "you"
    assert "\n".join(lines[2:4]) in (namespaces.GUARDED.format(user=user), namespaces.UNGUARDED)
    assert lines[4].startswith("To allow them: ")
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndemo: kernel .venv" in makefile


def plain_program(script: str, own: Path, read: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script as a plain process with a disk and a mount that it may not write to; /tmp is not shared here.
    The last line is why it did not start."""
    start = "from localcloud.machines import plain; plain.SHARED = ('/dev/null', plain.SHARED[-1]); plain.main()"
    mount = {"kind": "bind", "source": str(read), "target": "/read", "readonly": True}
    description = {"disk": str(own), "argv": ["/bin/sh", "-c", script], "cwd": str(own), "mounts": [mount], "status": 2}
    return subprocess.run(
        [*before, sys.executable, "-S", "-c", start], input=json.dumps(description | {"env": {"READ": "/read"}}),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.skipif(plain.landlock() < plain.VERSION, reason="this kernel has no Landlock, or one before Linux 6.2")
def test_a_plain_program_changes_nothing_but_its_own_folders(tmp_path):
    (own := tmp_path / "own").mkdir()
    (read := tmp_path / "read").mkdir()
    (read / "kept").write_text("kept")
    tries = ["echo new > {}/kept", "rm {}/kept", "mv {}/kept here", "touch {}/more", "mkdir {}/more",
             "ln -s a {}/more", "ln {}/kept here", "mv mine {}/more", "truncate -s 0 {}/kept",
             "echo 0 > /proc/self/oom_score_adj"]  # fmt: skip
    if plain.landlock() >= plain.SIGNALS_SINCE:
        tries += ["kill -0 $PPID"]
    if os.geteuid() == 0:
        tries += ["chown 1 mine", "mknod made b 7 7"]
    lines = ["echo mine > mine && mkdir -p a/b && mv mine a/b && mv a/b/mine .", "echo output > /proc/self/fd/1"]
    lines += [f"({each.format('$READ')}) 2>/dev/null && echo 'done: {each}'" for each in tries]
    done = plain_program("\n".join([*lines, "cat $READ/kept mine"]), own, read)
    assert done.stdout == "output\nkeptmine\n"
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["mine", "kept"]


def test_without_landlock_root_starts_no_plain_program(tmp_path):
    without, root = [*REFUSED, "--without-landlock"], os.geteuid() == 0
    asked = run([*without, sys.executable, "-S", "-m", "localcloud.machines.namespaces"])
    assert asked.returncode == (2 if root else 0)
    assert ("No machine or container runs here" if root else namespaces.UNGUARDED) in asked.stdout
    done = plain_program("echo started", tmp_path, tmp_path, *without)
    assert done.stdout.splitlines() == (
        ["/bin/sh: a plain process of root needs Landlock, as of Linux 6.2"] if root else ["started"]
    )
    if root:
        other = [*REFUSED, "--user", "65534", "--without-landlock"]
        asked = run([*other, sys.executable, "-S", "-m", "localcloud.machines.namespaces"])
        assert namespaces.UNGUARDED in asked.stdout


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("cat > /etc/a <<EOF", "cat > {0}/etc/a <<EOF"),
        ('FOLDER = "/var/lib/x"', 'FOLDER = "{0}/var/lib/x"'),
        ("--volume /var/lib/x:/scratch", "--volume {0}/var/lib/x:/scratch"),
        ("http://169.254.169.254/latest/", "http://{1}/latest/"),
        ("/usr/bin/python3 /opt/a.py", "/usr/bin/python3 {0}/opt/a.py"),
        ("$STATE/home https://host/var/x gs://bucket/etc/x", "$STATE/home https://host/var/x gs://bucket/etc/x"),
        ("/variable /etcetera /run.sh", "/variable /etcetera /run.sh"),
    ],
)
def test_a_machines_paths_are_told_as_those_of_its_disk(tmp_path, told, expected):
    ports = Ports(tmp_path, [("169.254.169.254", 80)])
    try:
        here = expected.format(ports.root, ports.addresses["169.254.169.254"])
        assert ports.told(told) == here
        assert ports.told(here) == here, "what was told once stays"
        assert ports.own(ports.told("/etc/fstab /usr")) == "/etc/fstab /usr"
        assert len(str(ports.root / "var/lib/tidemill/worker/fetch.sock")) < 108
    finally:
        ports.close()
    assert not ports.root.is_symlink()


@pytest.mark.parametrize(("name", "bad"), [(name, values[0]) for name, values in namespaces.SETTINGS.items()])
def test_the_setting_that_refuses_namespaces_is_named(tmp_path, monkeypatch, name, bad):
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text(f"{bad}\n")
    monkeypatch.setattr(namespaces, "SYSCTL", tmp_path)
    assert (
        namespaces.fix("why") == f"To allow them: sudo sysctl {name.replace('/', '.')}={namespaces.SETTINGS[name][1]}"
    )


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("refusing", "fix"),
    [
        ('mount --rbind / "$0" && exec chroot "$0" sh -c "cd $1 && $2"', "leave the chroot"),
        ("echo 0 > /proc/sys/user/max_user_namespaces && exec $2", "sudo sysctl user.max_user_namespaces=10000"),
    ],
)
def test_a_chroot_and_a_limit_of_zero_refuse_namespaces(tmp_path, refusing, fix):
    asks = f"{sys.executable} -S -m localcloud.machines.namespaces"
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", refusing]
    done = run([*unshare, str(tmp_path), str(ROOT), asks])
    assert done.stdout.splitlines()[-1].startswith(f"To allow them: {fix}"), done
