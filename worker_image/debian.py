"""Debian's packages for an architecture, unpacked into the user's cache folder; nothing is installed.

apt checks them by the keys of Debian's archive, in a folder of its own: neither this machine's distribution nor its
list of architectures matters.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from worker_image import tools
from worker_image.tools import BuildError

RELEASE = "bookworm"
"""Its Python is the one that the wheels are locked for."""
PYTHON = "python3.11"
PACKAGES = (
    f"{PYTHON}-minimal", f"lib{PYTHON}-minimal", f"lib{PYTHON}-stdlib", "libbz2-1.0", "libc6", "libexpat1", "libffi8",
    "libgcc-s1", "liblzma5", "libssl3", "libuuid1", "zlib1g",
)  # fmt: skip
TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "TIDEMILL_DEBIAN_MIRROR"
"""Variable with the address below which a mirror has `debian` and `debian-security`; without it, this machine's apt
says where they are."""
DAY_SECONDS = 86_400
"""Updates of security are taken after a day at most."""


def root(architecture: str) -> Path:
    """The packages of an architecture, unpacked.

    Raises:
        BuildError: apt or Debian's keys are missing, or the archive does not answer.
    """
    return packages(architecture, PACKAGES)


def packages(architecture: str, names: tuple[str, ...]) -> Path:
    """Any packages of an architecture, unpacked; see `root`."""
    digest = hashlib.sha256(" ".join(names).encode()).hexdigest()[:12]
    folder = tools.cache() / f"debian-{RELEASE}-{architecture}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    unpacked = folder / "root"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes never unpack at once; the second finds the result
        if not unpacked.exists() or unpacked.stat().st_mtime < time.time() - DAY_SECONDS:
            _unpack(_download(architecture, names, folder), unpacked)
    return unpacked


def version(architecture: str) -> tuple[int, int, int]:
    """The version of its Python."""
    header = root(architecture).parent / "versions"
    match = re.search(rf"^{PYTHON}-minimal_(\d+)\.(\d+)\.(\d+)", header.read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]), int(match[2]), int(match[3])


def command(unpacked: Path) -> list[str]:
    """Command line that starts the unpacked Python on this machine, whatever C library this machine has."""
    triple = TRIPLES[tools.architecture()]
    folders = [unpacked / "lib" / triple, unpacked / "usr/lib" / triple]
    (loader,) = folders[0].glob("ld-linux-*")
    return [str(loader), "--library-path", ":".join(map(str, folders)), str(unpacked / "usr/bin" / PYTHON), "-sS"]


def _download(architecture: str, names: tuple[str, ...], folder: Path) -> Path:
    """A folder of exactly these packages' newest versions; one that is there already is not fetched again."""
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise BuildError(f"{program} is not on PATH: the worker of another architecture needs Debian or Ubuntu.")
    if not Path(KEYS).exists():
        raise BuildError(f"{KEYS} is missing: install debian-archive-keyring.")
    target = folder / "packages"
    for each in (target, folder / "apt/lists/partial"):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "apt/status").touch()
    places = (("debian", RELEASE), ("debian-security", f"{RELEASE}-security"))
    sites = _sites()
    lines = [f"deb [arch={architecture} signed-by={KEYS}] {sites[path]} {suite} main\n" for path, suite in places]
    (folder / "apt/sources").write_text("".join(lines))
    settings = {
        "APT::Architecture": architecture,
        "APT::Sandbox::User": "",  # the cache folder is not the user _apt's
        "Acquire::Languages": "none",
        "Dir::State": str(folder / "apt"),
        "Dir::State::status": str(folder / "apt/status"),
        "Dir::Cache": str(folder / "apt"),
        "Dir::Etc::sourcelist": str(folder / "apt/sources"),
        "Dir::Etc::sourceparts": "/dev/null",
    }
    apt = ["apt-get", "-q", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    _run([*apt, "update"], target)
    wanted = _run([*apt, "download", "--print-uris", *names], target)
    files = re.findall(r"^'\S+' (\S+)", wanted, re.MULTILINE)
    for old in target.iterdir():
        if old.name not in files:
            old.unlink()
    _run([*apt, "download", *names], target)
    (folder / "versions").write_text("".join(f"{name}\n" for name in sorted(files)))
    return target


def _sites() -> dict[str, str]:
    """Addresses of Debian's archives, by the last part of their paths."""
    if mirror := os.environ.get(MIRROR, "").rstrip("/"):
        return {path: f"{mirror}/{path}" for path in ("debian", "debian-security")}
    listing = tools.run(["apt-get", "indextargets", "--format", "$(SITE)"]).stdout
    sites = {site.rpartition("/")[2]: site for site in (line.rstrip("/") for line in listing.splitlines())}
    if not {"debian", "debian-security"} <= sites.keys():
        raise BuildError(f"apt on this machine does not know Debian's archives: set {MIRROR} to a mirror's address.")
    return sites


def _unpack(archives: Path, unpacked: Path) -> None:
    fresh = unpacked.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for package in sorted(archives.glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(fresh)], archives)
    os.utime(fresh)  # packages bring a time of their own for the root
    shutil.rmtree(unpacked, ignore_errors=True)
    fresh.rename(unpacked)


def _run(words: list[str], folder: Path) -> str:
    done = tools.run(words, cwd=folder, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-4:])
        raise BuildError(f"Debian's packages did not come (`{Path(words[0]).name}`):\n{tail}")
    return done.stdout
