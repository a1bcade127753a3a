"""The tree: interpreter, wheels, shared libraries, loader and entry point in a relocatable folder.

lib/               shared libraries, the loader as `loader`
py/                CPython: bin/python3 and its standard library
site/              our wheels and `tidemill`; Python is started on this folder, so it is first in sys.path.
                   `certifi` is for images without certificates
tidemill-worker    the entry
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from worker_image import tools
from worker_image.bases import Base, base
from worker_image.tools import BuildError

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.txt"
CLOUDS = ("aws", "gcp")
WHEELS = ("certifi", "obstore", "pydantic", "regex", "zstandard")
"""A worker's imports, without their dependencies. Neither cloud's worker uses an SDK, so both trees are identical."""
SENDER_WHEELS = ("boto3", "click", "cronsim", "requests", "tzdata")
"""What the sender imports besides: the client with the SDK of AWS, and the times of schedules. On GCP the machine gives
the login."""
AWS_MODELS = ("batch", "logs", "secretsmanager", "service-quotas", "sns", "sqs", "sts")
"""Services that the sender calls; the descriptions of all that boto3 knows are as large as a third of the tree."""
NOT_OURS = ("cli",)
"""Parts of `tidemill` that neither worker nor sender imports."""
NO_STDLIB = (
    "__pycache__", "_pydecimal.py", "config-*", "dbm", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "dist-packages", "sqlite3", "test", "tests", "tkinter", "turtle*", "unittest", "venv", "wsgiref", "xmlrpc",
    "_codecs_*", "_crypt.*", "_ctypes_test*", "_curses*", "_dbm*", "_gdbm*", "_sqlite3*", "_test*", "_tkinter*",
    "_xxtestfuzz*", "_xxsubinterpreters*", "audioop.*", "nis.*", "ossaudiodev.*", "readline.*", "sitecustomize.py",
    "spwd.*", "xxlimited*",
)  # fmt: skip
NO_WHEEL = (
    "__pycache__", "bin", "*.pyi", "py.typed", "RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json",
    "fsspec.py", "_cffi.*", "backend_cffi.py", "mypy.py", ".lock", "tests", "botocore/cacert.pem", "boto3/examples",
    "boto3/data",
)  # fmt: skip
NAME_SERVICE = ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that the C library loads by name to look up a host."""
MAIN = """\
import runpy, sys

runpy.run_module(f"tidemill.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
"""


def build(target: Path, architecture: str | None = None) -> None:
    """Build the tree in a new folder.

    Args:
        architecture: As OCI names it; this machine's if left out. Another one's is made from Debian's packages.

    Raises:
        BuildError: The build needs something that this machine does not have.
    """
    architecture = architecture or tools.architecture()
    source = base(architecture)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    _interpreter(target / "py", source)
    _wheels(target / "site", source)
    _package(target / "site")
    _libraries(target, source)
    _strip(target, source)
    _compile(target, source)
    tools.entry(target / "tidemill-worker", architecture)
    for path in target.rglob("*"):
        executable = path.name in ("loader", "python3", "tidemill-worker")
        path.chmod(0o755 if path.is_dir() or executable else 0o644)


def size(tree: Path) -> int:
    """The size of its files in bytes."""
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def _interpreter(folder: Path, source: Base) -> None:
    (folder / "bin").mkdir(parents=True)
    shutil.copy(source.python, folder / "bin" / "python3")
    for name, library in source.libraries().items():
        if not (folder / name).exists():
            shutil.copytree(library, folder / name, ignore=shutil.ignore_patterns(*NO_STDLIB))


def _wheels(site: Path, source: Base) -> None:
    """Install from the lock file, with hashes checked."""
    tar = () if source.version >= (3, 11, 4) else ("backports.tarfile",)
    names = _closure((*WHEELS, *SENDER_WHEELS, *tar))
    wanted = site.parent / "wheels.txt"
    wanted.write_text("".join(_locked(names)))
    uv = Path(sys.prefix, "bin", "uv")
    options = ["--no-deps", "--require-hashes", "--link-mode", "copy", "--no-config", "--only-binary", ":all:"]
    command = [str(uv), "pip", "install", "--quiet", *source.wheels, "--target", str(site), *options]
    done = tools.run([*command, "--requirements", str(wanted)])
    if done.returncode:
        raise BuildError(f"The wheels of the worker could not be installed:\n{done.stderr}")
    wanted.unlink()
    _prune(site, NO_WHEEL)
    for path in (site / "botocore" / "data").iterdir():
        if path.is_dir() and path.name not in AWS_MODELS:
            shutil.rmtree(path)


def _closure(names: tuple[str, ...]) -> set[str]:
    """These distributions and all their dependencies here."""
    closure: set[str] = set()
    waiting = list(names)
    while waiting:
        name = _normal(waiting.pop())
        if name not in closure:
            closure.add(name)
            needs = distribution(name).requires or []
            waiting += [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needs if "extra ==" not in need]
    return closure


def _locked(names: set[str]) -> Iterator[str]:
    """The lock file's entries for these distributions."""
    entries = re.findall(r"^[^\s#].*?(?=^\S|\Z)", LOCK.read_text(), re.MULTILINE | re.DOTALL)
    for entry in entries:
        if _normal(entry.partition("==")[0]) in names:
            names = names - {_normal(entry.partition("==")[0])}
            yield entry
    if names:
        raise BuildError(f"requirements.txt does not hold {', '.join(sorted(names))}: run `make lock`.")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _prune(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in sorted(folder.rglob(pattern), reverse=True):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _package(site: Path) -> None:
    shutil.copytree(ROOT / "tidemill", site / "tidemill", ignore=shutil.ignore_patterns("__pycache__", *NOT_OURS))
    # A checkout keeps the folder of a module that moved away, with compiled files alone.
    for folder in sorted((path for path in (site / "tidemill").rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    (site / "__main__.py").write_text(MAIN)


def _objects(tree: Path) -> list[Path]:
    """Files that the loader loads."""
    objects = []
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    objects.append(path)
    return objects


def _strip(tree: Path, source: Base) -> None:
    """Remove debug symbols, often most of a wheel's size, if this machine has the tool."""
    if strip := shutil.which(source.strip):
        for path in _objects(tree):
            done = tools.run([strip, "--strip-unneeded", str(path)])
            if done.returncode:
                raise BuildError(f"strip {path.name}: {done.stderr}")


def _libraries(tree: Path, source: Base) -> None:
    """Every library that an object of the tree needs from outside it, and the loader."""
    folder = tree / "lib"
    folder.mkdir()
    waiting = _objects(tree)
    for path in waiting:
        for name, found in source.needed(path):
            if not found:
                raise BuildError(f"{path.relative_to(tree)} needs {name}, which this machine does not have.")
            if Path(found).is_relative_to(tree):
                continue
            target = folder / ("loader" if name.startswith("/") else Path(name).name)
            if not target.exists():
                shutil.copy(Path(found).resolve(), target)
                waiting.append(target)  # a base may name only the direct ones
    if not (folder / "loader").exists():
        raise BuildError(f"{source.python} is a static program: the worker needs one that a loader starts.")
    beside = next(Path(found).parent for name, found in source.needed(tree / "py/bin/python3") if "libc." in name)
    for name in NAME_SERVICE:
        if (beside / name).exists() and not (folder / name).exists():
            shutil.copy((beside / name).resolve(), folder / name)


def _compile(tree: Path, source: Base) -> None:
    """Compile bytecode that is never checked against the source: the tree is read-only and has no mtimes."""
    version = f"python{source.version[0]}.{source.version[1]}"
    folders = [str(path) for path in (*tree.glob(f"py/*/{version}"), tree / "site")]
    options = ["-q", "-j", "1", "--invalidation-mode", "unchecked-hash", "-s", str(tree), "-p", "/tidemill"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = tools.run([*source.compile, *options, *folders], env=environment)
    if done.returncode:
        raise BuildError(f"The tree's modules do not compile:\n{done.stdout}{done.stderr}")
