"""The worker in images with another C library, made from Debian's packages (`make test-images`; needs apt and cc). What
it cannot prove: images of other distributions, and an older kernel."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.worker_image.conftest import built, container, team  # noqa: F401 the same fixtures
from tests.worker_image.roots import run_chunk
from tidemill.descriptor import WorkerExit
from worker_image import debian

MUSL = "usr/lib/x86_64-linux-musl"
LOADER = "lib/ld-musl-x86_64.so.1"
"""It is the C library, too."""
PROGRAM = """\
#include <stdio.h>

int main(int count, char **arguments) {
    FILE *file = fopen(arguments[1], "w");
    return file == NULL || fputs("musl", file) < 0 || fclose(file) != 0;
}
"""


@pytest.fixture(scope="module")
def packages():
    """A folder of what the packages hold."""
    return debian.packages("amd64", ("busybox-static", "musl", "musl-dev"))


@pytest.fixture
def busybox(container, packages):  # noqa: F811 as pytest has it
    """Makes a root of busybox alone."""

    def make(user):
        root = container(user)
        (root.folder / "bin").mkdir()
        for name in ("busybox", "sh", "cat", "wc", "env"):
            shutil.copy(packages / "bin/busybox", root.folder / "bin" / name)
        return root

    return make


@pytest.mark.parametrize("user", [0, 1000])
def test_busybox(busybox, team, user):  # noqa: F811 as pytest has it
    script = "wc -c < {input} > {output}/size && env > {output}/env"
    job, given, done = run_chunk(busybox(user), team, ["sh", "-c", script], PATH="/bin")
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    for outcome in job.outcomes():
        files = job.outputs(outcome)
        assert files["size"] == b"6\n"
        names = {line.partition("=")[0] for line in files["env"].decode().splitlines()}
        assert {n for n in names if not n.startswith("TIDEMILL_")} - {"SHLVL", "PWD"} == {
            n for n in given if not n.startswith("TIDEMILL_")
        }


@pytest.mark.parametrize("user", [0, 1000])
def test_musl(busybox, packages, team, tmp_path, user):  # noqa: F811 as pytest has it
    """A program of the image that needs the image's loader and C library."""
    root = busybox(user)
    (root.folder / "lib").mkdir()
    shutil.copy(packages / LOADER, root.folder / LOADER)
    shutil.copy(compiled(packages, tmp_path), root.folder / "program")
    loader = subprocess.run(["readelf", "-l", str(root.folder / "program")], capture_output=True, text=True, check=True)
    assert f"/{LOADER}" in loader.stdout
    job, _, done = run_chunk(root, team, ["/program", "{output}/said"], LD_LIBRARY_PATH="/lib")
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    assert [job.outputs(outcome)["said"] for outcome in job.outcomes()] == [b"musl"] * 2


def compiled(packages, folder):
    """A program that is linked with musl as a compiler on such a system links it."""
    source, target = folder / "program.c", folder / "program"
    source.write_text(PROGRAM)
    library = packages / MUSL
    shutil.copy(packages / LOADER, folder / "libc.so")  # by which name programs ask for it
    own = ["-nostdinc", "-isystem", str(packages / "usr/include/x86_64-linux-musl"), "-nostdlib", "-no-pie"]
    parts = [str(library / "crt1.o"), str(source), *(str(library / each) for each in ("crti.o", "crtn.o"))]
    command = ["cc", *own, f"-Wl,-dynamic-linker,/{LOADER}", "-o", str(target), *parts, f"-L{folder}", "-l:libc.so"]
    subprocess.run(command, check=True, timeout=60)
    return target
