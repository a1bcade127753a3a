"""Shipped code on a machine: fetched, checked and unpacked once, with its packages next to it.

Every worker of a user on the machine shares `<cache>/code-<uid>`. The first to come works under a lock that the
kernel drops when it dies, in a folder of another name, which is renamed when it is whole; the others wait, and find it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from tidemill import layout
from tidemill.code import MAX_BYTES, MAX_FILES, PACKAGE_FILES, PLACEHOLDER, REQUIREMENTS, file_sha256
from tidemill.errors import StoreError, StoreMissingError
from tidemill.job import JobSpec
from tidemill.ledger.documents import TamperedError
from tidemill.store import Store, Stores
from tidemill.worker.machine.machine_folder import MachineFolder, NotReadyError, StoppedError
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import ItemOutput, log
from tidemill.worker.programs.process import Pipes, run_program
from tidemill.worker.programs.programs import Programs
from tidemill.worker.programs.supervisor import Limits

if sys.version_info >= (3, 11, 4):
    import tarfile
else:
    from backports import tarfile

INSTALL_SECONDS = 1800.0
WHEELHOUSE_BYTES = 8 * 1024**3
_ENTRY_BYTES = 4096
"""Bytes that a tarball adds per entry: header, long names, padding."""
# Pythons that differ in version, platform or C library need separate packages.
_IDENTITY = "import sys, sysconfig; print(sys.executable, sys.version, sysconfig.get_config_var('SOABI'))"


class InstallError(NotReadyError):
    """The packages of the code could not be installed; the text is pip's own."""


@dataclass(frozen=True)
class Code:
    """Code that is ready on this machine: the unpacked folder, and the folder of its requirements if it has any."""

    folder: Path
    packages: Path | None = None

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """A program's environment with the code in it: `TIDEMILL_CODE`, and first on PYTHONPATH and PATH."""
        path = [str(self.folder), *([str(self.packages)] if self.packages else []), env.get("PYTHONPATH", "")]
        variables = {**env, "TIDEMILL_CODE": str(self.folder), "PYTHONPATH": ":".join(filter(None, path))}
        if self.packages:
            variables["PATH"] = ":".join(filter(None, [f"{self.packages}/bin", env.get("PATH", os.defpath)]))
        return variables

    def spec(self, spec: JobSpec) -> JobSpec:
        """A spec whose command names the folder."""
        if spec.command is None:
            return spec
        words = [word.replace(PLACEHOLDER, str(self.folder)) for word in spec.command]
        return spec.model_copy(update={"command": words})


class CodeCache:
    """The machine's shipped code, in a folder that its workers share."""

    def __init__(
        self, cache: Path, store: Store, stores: Stores, *, programs: Programs, stop: Stop, python: str = "python3"
    ) -> None:
        self._folder = MachineFolder(cache, "code", stop)
        self._root = self._folder.root
        self._store, self._stores, self._programs, self._stop, self._python = store, stores, programs, stop, python

    def ready(self, job: str, sha256: str, spec: JobSpec, env: Mapping[str, str]) -> Code:
        """Prepare a job's code on this machine.

        Args:
            job: The job.
            sha256: Its code, as the round names it.
            spec: Says where packages come from.
            env: The environment of the job's programs, in which pip runs.

        Raises:
            TamperedError: The code in the store is not what was submitted.
            InstallError: pip failed.
            StoppedError: The worker was stopped.
            StoreError: The store did not answer, or the disk is full.
        """
        self._folder.open()
        home = self._root / sha256
        try:
            self._folder.once(home, lambda part: self._unpack(job, sha256, part))
            code = Code(home / "code")
            if not (code.folder / REQUIREMENTS).is_file():
                return code
            packages = home / f"packages-{self._packages_key(spec, env)}"
            self._folder.once(packages, lambda part: self._install(job, code, part, spec, env))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(f"{self._root}: the disk is full; the job's code does not fit.") from error
            raise
        return Code(code.folder, packages / "site")

    # ---- code ---------------------------------------------------------------------------------------------------

    def _unpack(self, job: str, sha256: str, part: Path) -> None:
        name = layout.code(job, sha256)
        archive = part / "code.tar.zst"
        try:
            self._store.download(name, archive, lambda: self._stop.raised)
        except InterruptedError:
            raise StoppedError from None
        except StoreMissingError:
            raise TamperedError(f"{self._store.uri_of(name)}, the job's code, is not in the store any more.") from None
        if file_sha256(archive) != sha256:
            raise TamperedError(
                f"{self._store.uri_of(name)}, the job's code, is not what was submitted: its SHA-256 differs."
            )
        folder = part / "code"
        folder.mkdir()
        try:
            unpack(archive, folder)
        except (tarfile.TarError, zstandard.ZstdError, ValueError) as error:
            raise TamperedError(f"{self._store.uri_of(name)}, the job's code, cannot be unpacked: {error}") from None
        archive.unlink()
        log("code unpacked", job=job, code=sha256)

    # ---- packages -----------------------------------------------------------------------------------------------

    def _packages_key(self, spec: JobSpec, env: Mapping[str, str]) -> str:
        """The key of a package folder: images on a machine share one only if their Pythons match in these."""
        pipes, heard = Pipes(), _CapturedOutput({"job": spec.job, "step": "install"})
        try:
            ended = run_program(
                self._programs,
                [self._python, "-c", _IDENTITY],
                cwd=self._root,
                env=env,
                limits=Limits(60),
                output=heard,
                pipes=pipes,
            )
        finally:
            pipes.close()
        self._folder.check_stop()
        if ended.reason is not None:
            raise InstallError(
                f"{REQUIREMENTS}: the image has no Python to install it with: {heard.tail() or ended.error}"
            )
        return hashlib.sha256(repr((heard.said, spec.pip_index, spec.wheelhouse)).encode()).hexdigest()[:16]

    def _install(self, job: str, code: Code, part: Path, spec: JobSpec, env: Mapping[str, str]) -> None:
        command = [self._python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
        command += ["--progress-bar", "off", "--target", str(part / "site"), "--requirement", REQUIREMENTS]
        if spec.pip_index:
            command += ["--index-url", spec.pip_index]
        if spec.wheelhouse:
            command += ["--find-links", str(self._fetch_wheels(spec.wheelhouse, part / "wheels"))]
            command += [] if spec.pip_index else ["--no-index"]
        (part / "tmp").mkdir()
        # The image's root may be read-only, and its pip be told to install for a user.
        own = {"TMPDIR": str(part / "tmp"), "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
        log("installing requirements.txt", job=job)
        pipes, output = Pipes(), ItemOutput({"job": job, "step": "install"})
        try:
            ended = run_program(
                self._programs,
                command,
                cwd=code.folder,
                env={**env, **own},
                limits=Limits(INSTALL_SECONDS),
                output=output,
                pipes=pipes,
            )
        finally:
            pipes.close()
            output.close()
        self._folder.check_stop()
        if ended.reason is not None:
            lines = "\n".join(line for line in output.tail().splitlines() if line.strip())
            raise InstallError(f"pip could not install {REQUIREMENTS}: {lines or ended.error}")
        (part / "site").mkdir(exist_ok=True)
        for folder in ("tmp", "wheels"):
            shutil.rmtree(part / folder, ignore_errors=True)

    def _fetch_wheels(self, uri: str, folder: Path) -> Path:
        store, prefix = self._stores.locate(uri.rstrip("/"))
        folder.mkdir()
        left = WHEELHOUSE_BYTES
        for entry in store.entries(prefix):
            if not entry.name.endswith(PACKAGE_FILES):
                continue
            left -= entry.size
            if left < 0:
                raise InstallError(f"wheelhouse {uri} holds more than {WHEELHOUSE_BYTES >> 30} GiB.")
            try:
                store.download(entry.name, folder / entry.name.rsplit("/", 1)[-1], lambda: self._stop.raised)
            except InterruptedError:
                raise StoppedError from None
        return folder


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tarball with Python's own caution, and no more than a folder of code may hold.

    The filter refuses names and links that lead outside and everything that is no file, folder or link:
    https://docs.python.org/3/library/tarfile.html#tarfile.data_filter.

    Raises:
        ValueError: Too many entries, or too many bytes.
        tarfile.TarError: It is no tarball, or something in it is refused.
    """
    with archive.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        capped = _CappedStream(stream, MAX_BYTES + MAX_FILES * _ENTRY_BYTES)
        with tarfile.open(fileobj=capped, mode="r|") as tar:  # type: ignore[call-overload] needs read() only
            count, size = 0, 0
            for member in tar:
                count, size = count + 1, size + max(0, member.size)
                if count > MAX_FILES or size > MAX_BYTES:
                    raise ValueError(f"it holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
                tar.extract(member, folder, filter="data")


class _CappedStream:
    """A stream that ends with an error after so many bytes: a small tarball can hold very long headers."""

    def __init__(self, stream: zstandard.ZstdDecompressionReader, limit: int) -> None:
        self._stream, self._left = stream, limit

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("it is larger than a folder of code may be")
        return data


class _CapturedOutput(ItemOutput):
    """The stdout of a short program, kept and not passed on."""

    def __init__(self, labels: dict[str, object]) -> None:
        super().__init__(labels)
        self.said = b""

    def feed(self, stream: str, data: bytes) -> None:
        if stream == "stdout":
            self.said += data
        else:
            super().feed(stream, data)
