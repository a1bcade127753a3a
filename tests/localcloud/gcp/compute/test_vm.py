"""VMs as real processes: cloud-init, units, docker, metadata, and their ends. Not proved: the real systemd, cloud-init
and Docker, and what Container-Optimized OS adds."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.gcp.compute import cloud_init
from localcloud.gcp.compute.docker import DockerError, read
from localcloud.gcp.compute.unit_files import UnitError, UnitFile
from localcloud.gcp.compute.vm import Vm
from localcloud.gcp.wire import Request, Response
from tests.localcloud.gcp.compute.vms import ACCOUNT, UNIT, Site, cloud_config
from tests.localcloud.waiting import sleeping, until
from worker_image.oci import Layout
from worker_image.tools import architecture, crane


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="vm-") as state:
        made = Site(Path(state))
        try:
            yield made
        finally:
            made.close()


def get(vm: Vm, path: str, flavor: str = "Google", **query: str) -> Response:
    """The answer of a VM's metadata server."""
    api, _, rest = path.partition("/")
    pairs = {name: [value] for name, value in query.items()}
    return vm.metadata.handle(Request(api, "GET", rest, pairs, {"metadata-flavor": flavor} if flavor else {}))


# Programs of the host


@pytest.mark.namespaces
def test_the_template_s_unit_runs_and_powers_the_machine_off(site: Site) -> None:
    script = """
    echo "$GREETING from $HOME"
    mkdir -p /var/lib/w && mount --bind /var/lib/w /var/lib/w && mount -o remount,exec /var/lib/w
    curl -fsS -H 'Metadata-Flavor: Google' http://metadata.google.internal/computeMetadata/v1/instance/name; echo
    curl -fsS -X POST --data-binary @/etc/w/run.sh 'https://storage.googleapis.com/upload/storage/v1/b/x/o?name=y'
    docker create --name c alpine; docker frobnicate; echo "refused: $?"
    touch /usr/here 2>/dev/null || echo "usr is read-only"
    """
    vm = site.vm(cloud_config(script))
    lines = site.ended(vm)
    assert "hello there from /var/lib/w" in lines
    assert f"\n{vm.name}\n" in lines
    assert "localcloud's docker does not know 'frobnicate'" in lines
    assert "refused: 125" in lines
    assert "usr is read-only" in lines
    assert [(m, p) for m, p, b in site.asked if b"GREETING" in b] == [("POST", "/storage/upload/storage/v1/b/x/o")]


@pytest.mark.namespaces
def test_a_container_gets_what_docker_run_says(site: Site) -> None:
    script = """
    docker-credential-gcr configure-docker --registries=us-central1-docker.pkg.dev
    image=us-central1-docker.pkg.dev/p/r/i@sha256:00
    docker pull --quiet $image
    mkdir -p /var/lib/w/in && echo data > /var/lib/w/in/file
    SECRET=s3cret docker run --rm --name w --init --network host --log-driver json-file --log-opt max-size=1m \\
      --env A=1 --env SECRET --volume /var/lib/w/in:/in:ro --volume /var/lib/w/out:/out --shm-size 7m \\
      --ulimit nofile=99:99 --entrypoint /bin/sh $image -c '
        echo "A=$A SECRET=$SECRET HOST=$GCE_METADATA_HOST"; cat /in/file; touch /in/x || echo in is read-only
        echo out > /out/file; ulimit -n; echo "state: $(ls '"$STATE"' 2>/dev/null | wc -l)"; exit 7'
    echo "ended with $?"; cat /var/lib/w/out/file; docker stop w
    """
    vm = site.vm(cloud_config(script.replace("$STATE", str(site.host.state.parent))))
    lines = site.ended(vm)
    assert "A=1 SECRET=s3cret HOST=169.254.169.254" in lines
    assert "data\n" in lines
    assert "in is read-only" in lines
    assert "\n99\n" in lines
    assert "state: 0" in lines
    assert "ended with 7\nout\n" in lines
    assert "No such container: w" in lines


def test_an_image_that_may_not_be_pulled(site: Site) -> None:
    script = """
    image=us-central1-docker.pkg.dev/p/r/i:latest
    docker pull $image; echo "first: $?"
    docker-credential-gcr configure-docker --registries=us-central1-docker.pkg.dev
    docker pull $image; echo "second: $?"
    """
    site.denied.add("artifactregistry.repositories.downloadArtifacts")
    try:
        lines = site.ended(site.vm(cloud_config(script)))
    finally:
        site.denied.clear()
    assert "Unauthenticated request" in lines
    assert 'Permission "artifactregistry.repositories.downloadArtifacts" denied' in lines
    assert "first: 1" in lines
    assert "second: 1" in lines


@pytest.mark.namespaces(False)
def test_without_namespaces_a_machine_is_told_where_its_disk_and_metadata_are(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("noted\n")
    layout = Layout(tmp_path / "layout")
    layout.write({"program": tmp_path / "note"}, architecture(), {"Entrypoint": ["/program"]})
    script = """
    mkdir -p /var/lib/w/data && echo kept > /var/lib/w/data/file
    curl -s -H 'Metadata-Flavor: Google' http://metadata.google.internal/computeMetadata/v1/instance/name; echo
    RUN=(docker run --rm --network host)
    "${RUN[@]}" --volume /var/lib/w/data:/data --env AT=/data/file debian:12 sh -c 'cat $AT; sleep 4747 &'
    "${RUN[@]}" "$(cat /var/lib/w/image)"; echo "refused: $?"
    """
    with tempfile.TemporaryDirectory(prefix="vm-") as state:
        site = Site(Path(state))
        try:
            site.host.refused = "why"
            address = site.host.registry.address()
            subprocess.run(
                [str(crane()), "push", str(layout.folder), f"{address}/p/r/i:v1"],
                check=True, timeout=120, capture_output=True,
            )  # fmt: skip
            image = f"- path: /var/lib/w/image\n  content: {address}/p/r/i:v1\n"
            vm = site.vm(cloud_config(script, more=image))
            lines = site.ended(vm).splitlines()
        finally:
            site.close()
    assert [line for line in lines if line in ("vm-0", "kept")] == ["vm-0", "kept"]
    assert "The image has a root of its own, which needs namespaces, and the kernel refuses them (why)." in str(lines)
    assert "refused: 126" in lines
    assert sleeping(4747) == []
    assert not Path("/var/lib/w").exists()


@pytest.mark.namespaces
def test_an_image_of_the_project_s_registry(site: Site, tmp_path: Path) -> None:
    """It is pulled by tag, inspected with create and cp, and run from its entry point."""
    (tmp_path / "main.go").write_text(
        'package main\nimport ("fmt"; "os")\n'
        'func main() { fmt.Println("says", os.Args[1:], os.Getenv("A")); os.Exit(4) }\n'
    )
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    build = ["go", "build", "-trimpath", "-o", str(tmp_path / "program"), str(tmp_path / "main.go")]
    subprocess.run(build, env=env, check=True, timeout=300)
    (tmp_path / "note").write_text("noted\n")
    layout = Layout(tmp_path / "layout")
    files = {"program": tmp_path / "program", "tree/deep/note": tmp_path / "note"}
    layout.write(files, architecture(), {"Entrypoint": ["/program"], "Cmd": ["by default"], "Env": ["A=image"]})
    push = [str(crane()), "push", str(layout.folder), f"{site.host.registry.address()}/p/r/i:v1"]
    subprocess.run(push, check=True, timeout=120, capture_output=True)
    script = """
    docker-credential-gcr configure-docker --registries=us-central1-docker.pkg.dev
    image=us-central1-docker.pkg.dev/p/r/i
    docker pull $image:v2; echo "missing: $?"; docker run --network host $image:v2; echo "missing: $?"
    docker pull --quiet $image:v1 && docker create --name c $image:v1
    docker create --name c $image:v1; echo "twice: $?"
    mkdir /var/lib/tree && docker cp c:/tree/. /var/lib/tree && cat /var/lib/tree/deep/note
    docker cp c:/none/. /var/lib/tree; echo "nothing: $?"
    docker rm --force c; docker rm c; echo "gone: $?"
    docker run --rm --network host $image:v1; echo "default: $?"
    docker run --rm --network host --env A=mine $image:v1 given; echo "given: $?"
    docker run --rm --network host --entrypoint /none $image:v1; echo "no program: $?"
    """
    lines = site.ended(site.vm(cloud_config(script)))
    assert "manifest unknown" in lines
    assert re.findall(r"(?:missing|twice|nothing|gone|default|given|no program): \d+", lines) == [
        "missing: 1", "missing: 125", "twice: 1", "nothing: 1", "gone: 1", "default: 4", "given: 4", "no program: 127",
    ]  # fmt: skip
    assert re.findall("noted|says .*", lines) == ["noted", "says [by default] image", "says [given] mine"]


@pytest.mark.namespaces
def test_machines_share_what_lies_in_filestore(site: Site) -> None:
    """Whether the kernel's NFS reaches it is not proved: a share is a folder here."""
    mount = (
        "type=volume,source=tidemill-shared,target=/mnt/shared{},volume-driver=local,volume-opt=type=nfs,"
        'volume-opt=device=:/files,"volume-opt=o=addr=172.30.1.2,nfsvers=3,nolock,{}"'
    )
    run = "docker run --rm --network host --mount '{}' --entrypoint /bin/sh image -c '{}'; echo \"code: $?\""
    write = run.format(mount.format("", "rw"), "echo kept > /mnt/shared/a")
    read = run.format(mount.format(",readonly", "ro"), "cat /mnt/shared/a; ! touch /mnt/shared/b")
    assert "code: 0" in site.ended(site.vm(cloud_config(write)))
    lines = site.ended(site.vm(cloud_config(read)))
    assert ("kept" in lines, "code: 0" in lines) == (True, True)
    other = run.format("type=tmpfs,target=/mnt/shared", "true")
    assert "code: 125" in site.ended(site.vm(cloud_config(other)))


LOOP = """
docker run --rm --name w --network host --entrypoint /bin/sh image -c \
  'trap "echo drains; exit 70" TERM; echo works; while :; do sleep 0.05; done'
echo "docker ended with $?"
"""


def test_a_soft_off_stops_the_container_through_its_unit(site: Site) -> None:
    vm = site.vm(cloud_config(LOOP))
    until(lambda: "works" in site.journal(vm))
    vm.notice()
    vm.shut_down(60)
    assert "drains" in site.ended(vm)


def test_a_guest_that_does_not_stop_is_cut_off(site: Site) -> None:
    vm = site.vm(cloud_config(LOOP.replace("exit 70", "")))
    until(lambda: "works" in site.journal(vm))
    vm.shut_down(0.5)
    until(lambda: vm.name in site.off)
    (process,) = [each.process for each in vm.docker.containers.values()]
    assert process
    assert process.poll() is None
    vm.close()
    assert process.wait(300) in (-9, 137), "its own end, or the code of its supervisor"


def test_a_killed_container_is_seen_by_the_script(site: Site) -> None:
    vm = site.vm(cloud_config(LOOP))
    until(lambda: "works" in site.journal(vm))
    # It writes before the command that started it has seen it.
    until(lambda: vm.docker.containers["w"].process)
    process = vm.docker.containers["w"].process
    assert process
    process.kill()
    assert "docker ended with 137" in site.ended(vm)
    assert "drains" not in site.journal(vm)
    assert vm.docker.containers == {}


def test_units_restart_up_to_their_limit_in_their_order(site: Site) -> None:
    unit = """
    [Unit]
    Requires=first.service
    After=first.service
    StartLimitIntervalSec=600
    StartLimitBurst=3
    FailureAction=poweroff
    [Service]
    ExecStartPre=/bin/echo before
    ExecStart=/bin/bash /etc/w/run.sh
    ExecStopPost=/bin/bash -c 'echo "post: $$SERVICE_RESULT $$EXIT_STATUS"'
    Restart=on-failure
    RestartSec=50ms
    """
    first = """
    [Service]
    Type=oneshot
    RemainAfterExit=yes
    ExecStart=/bin/sleep 0.2
    ExecStart=/bin/echo first is done
    """
    more = f"- path: /etc/systemd/system/first.service\n  content: |\n{first}\n"
    lines = site.ended(site.vm(cloud_config("echo runs; exit 3", textwrap.dedent(unit), more)))
    assert re.findall("first is done|before|runs|post: .*", lines) == [
        "first is done", *["before", "runs", "post: exit-code 3"] * 3,
    ]  # fmt: skip
    assert "w.service: start-limit-hit" in lines


def test_a_unit_that_reaches_its_age_is_stopped_and_has_failed(site: Site) -> None:
    unit = UNIT.replace("ExecStop=-/usr/bin/docker stop --time 20 w", "ExecStop=/bin/echo stops")
    unit = unit.replace("SuccessAction=poweroff\n", "").replace("KillMode", "RuntimeMaxSec=6s\nKillMode")
    lines = site.ended(site.vm(cloud_config("echo runs; exec sleep 60", unit)))
    assert re.findall("runs|stops|w.service: .*", lines) == ["runs", "stops", "w.service: timeout"]


def test_a_unit_that_is_required_and_fails_takes_the_other_with_it(site: Site) -> None:
    unit = UNIT.replace("[Service]", "Requires=first.service\nAfter=first.service\n[Service]")
    more = (
        "- path: /etc/systemd/system/first.service\n  content: |\n"
        "    [Service]\n    Type=oneshot\n    ExecStart=/bin/false\n"
    )
    lines = site.ended(site.vm(cloud_config("echo never", unit, more)))
    assert "Dependency failed for w.service" in lines
    assert "never" not in lines


def test_what_cannot_be_run_is_said_and_not_left_out(site: Site) -> None:
    assert "needs a" not in site.vm("").problem
    vm = site.vm("#!/bin/sh\necho a start-up script\n")
    assert "the first line has to be #cloud-config" in vm.problem
    assert vm.problem in site.journal(vm)
    vm = site.vm(cloud_config("true", UNIT + "MemoryMax=1G\n"))
    until(lambda: "localcloud does not know MemoryMax in [Service]" in site.journal(vm))


def test_nothing_of_a_closed_machine_is_left(site: Site) -> None:
    vm = site.vm(cloud_config(LOOP))
    until(lambda: "works" in site.journal(vm))
    processes = set(vm._processes)
    vm.close()
    assert all(each.poll() is not None for each in processes)
    assert not vm.root.exists()
    assert vm.name not in site.off, "the cloud did it, not the guest"


# Metadata


def test_metadata_wants_its_header_and_serves_what_there_is(site: Site) -> None:
    vm = site.vm("", zone="projects/1/zones/z", attributes={"user-data": "x"})
    at = "computeMetadata/v1/"
    assert get(vm, f"{at}instance/name", flavor="").status == 403
    assert get(vm, f"{at}instance/zone").body == b"projects/1/zones/z"
    assert get(vm, f"{at}instance/attributes/user-data").body == b"x"
    assert get(vm, f"{at}instance/attributes/").body == b"user-data\n"
    assert get(vm, f"{at}instance/maintenance-event").body == b"NONE"
    assert get(vm, f"{at}project/project-id").headers["Metadata-Flavor"] == "Google"
    assert get(vm, f"{at}instance/nothing").status == get(vm, "computeMetadata/v0/").status == 404
    token = get(vm, f"{at}instance/service-accounts/default/token").json()
    assert token["access_token"] == f"of serviceAccount:{ACCOUNT}"
    assert get(vm, f"{at}instance/service-accounts/other/token").status == 404
    account = get(vm, f"{at}instance/service-accounts/default/", recursive="true").json()
    assert account["email"] == ACCOUNT


def test_a_token_needs_the_scope(site: Site) -> None:
    account = {"default": {"email": ACCOUNT, "scopes": "https://www.googleapis.com/auth/devstorage.read_only\n"}}
    vm = site.vm("", **{"service-accounts": account})
    assert get(vm, "computeMetadata/v1/instance/service-accounts/default/token").status == 403


def test_waiting_for_a_preemption(site: Site) -> None:
    vm = site.vm("")
    path = "computeMetadata/v1/instance/preempted"
    first = get(vm, path)
    assert first.body == b"FALSE"
    etag = first.headers["ETag"]
    assert get(vm, path, wait_for_change="true", timeout_sec="0", last_etag=etag).body == b"FALSE"
    answers: list[Response] = []
    ask = {"wait_for_change": "true", "timeout_sec": "60", "last_etag": etag}
    thread = threading.Thread(target=lambda: answers.append(get(vm, path, **ask)), daemon=True)
    thread.start()
    vm.notice()
    thread.join(60)
    assert answers[0].body == b"TRUE"
    assert get(vm, path, wait_for_change="true", last_etag=etag).body == b"TRUE", "at once: it is another value"


# What is read


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("runcmd: []", "first line"),
        ("#cloud-config\nusers: []", "users"),
        ("#cloud-config\n- a", "localcloud knows"),
        ("#cloud-config\nwrite_files:\n- {path: a, content: x}", r"write_files\[0\]"),
        ("#cloud-config\nwrite_files:\n- {path: /a, append: true}", "append"),
        ("#cloud-config\nwrite_files:\n- {path: /a, owner: bob}", "owner"),
        ("#cloud-config\nwrite_files:\n- {path: /a, permissions: rwx}", "permissions"),
        ("#cloud-config\nwrite_files:\n- {path: /a, encoding: rot13}", "encoding"),
        ("#cloud-config\nwrite_files:\n- {path: /a, encoding: gz+b64, content: eA==}", "content"),
        ("#cloud-config\nruncmd:\n- {a: b}", r"runcmd\[0\]"),
        ("#cloud-config\n\tx: [", "user-data"),
    ],
)
def test_a_cloud_config_that_is_not_known_is_refused(text: str, named: str) -> None:
    with pytest.raises(cloud_init.CloudInitError, match=named):
        cloud_init.parse(text)


def test_files_of_a_cloud_config() -> None:
    found = cloud_init.parse(
        "#cloud-config\nwrite_files:\n- {path: /a, encoding: b64, content: aGk=, permissions: '0600'}\n"
    )
    assert found.files == [cloud_init.File("/a", b"hi", 0o600)]


@pytest.mark.parametrize(
    "text",
    [
        "[Timer]\nOnBootSec=1",
        *(f"[Service]\n{line}" for line in ("ExecReload=/x", "Type=notify", "User=b", "ExecStart=/x %i")),
    ],
)
def test_a_unit_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        UnitFile("u.service", text)


def test_the_lines_of_a_unit() -> None:
    text = "[Service]\nEnvironment=A=1 'B=x y'\nExecStart=-/bin/x $B ${B} $$C \\\n  more\n"
    text += "RestartSec=1min 5s\nExecStartPre=/old\nExecStartPre=\n"
    unit = UnitFile("u.service", text)
    (command,) = unit.commands("ExecStart", unit.environment)
    assert (command.argv, command.tolerant) == (["/bin/x", "x", "y", "x y", "$C", "more"], True)
    assert unit.seconds("RestartSec", 0) == 65
    assert unit.commands("ExecStartPre", {}) == []
    with pytest.raises(UnitError):
        UnitFile("u.service", "[Service]\nTimeoutStopSec=1 fortnight\n").seconds("TimeoutStopSec", 0)


@pytest.mark.parametrize("argv", [["--privileged", "i"], ["-d", "i"], ["--gpus", "all", "i"], ["-it", "i"]])
def test_a_flag_of_docker_run_that_is_not_known_is_refused(argv: list[str]) -> None:
    with pytest.raises(DockerError, match="does not know the flag"):
        read("run", argv)


def test_flags_end_where_the_image_begins() -> None:
    found = read("run", ["--env", "A=1", "-e=B", "--rm", "image", "--env", "C"])
    assert (found.values["env"], found.words) == (["A=1", "B"], ["image", "--env", "C"])
    with contextlib.suppress(KeyError):
        assert not found.values["privileged"]
