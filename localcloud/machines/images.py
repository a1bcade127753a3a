"""Container images from a registry on loopback, which represents the cloud's own. Each digest is unpacked once.

A repository that has received no push, or any other registry, represents this machine's own root: no image is fetched
from elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker_image.tools import architecture, crane

MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in ("oci.image.manifest.v1", "oci.image.index.v1", "docker.distribution.manifest.v2")
)
SECONDS = START_SECONDS = 120


class PullError(Exception):
    """The registry has the repository, but not this image, or the image cannot run here."""


@dataclass(frozen=True)
class Image:
    """An unpacked image; ``config`` is the ``config`` of its OCI configuration."""

    root: Path
    config: dict[str, Any]

    @property
    def variables(self) -> dict[str, str]:
        return dict(line.partition("=")[::2] for line in self.config.get("Env") or [])


class Registry:
    """The registry and the images pulled from it. It starts when its address is first read.

    Args:
        folder: Folder for blobs and unpacked images.
        hosts: Names of the cloud's registry, which this one represents.
    """

    def __init__(self, folder: Path, hosts: re.Pattern[str]) -> None:
        self._folder, self._hosts = folder, hosts
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def address(self) -> str:
        """The host and port to push to."""
        with self._lock:
            if self._process is None:
                self._start()
            return self._address

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def find(self, reference: str) -> Image | None:
        """Return the image of a reference, or None for one that represents this machine's root.

        Raises:
            PullError: The repository has no such image, or the image needs something that this emulation lacks.
        """
        pinned = self.pinned(reference)
        if pinned is None:
            return None
        with self._lock:
            image = self._unpack(pinned, self._folder / pinned.rpartition(":")[2])
        if image.config.get("User", "") not in ("", "0", "root", "0:0", "root:root"):
            raise PullError(f"localcloud does not emulate the user {image.config['User']} of {reference}")
        return image

    def pinned(self, reference: str) -> str | None:
        """Return an image's reference by digest, or None for one that represents this machine's root.

        Raises:
            PullError: The repository has no such image.
        """
        host, _, path = reference.partition("/")
        if self._process is None or not (host == self._address or self._hosts.fullmatch(host)):
            return None
        found = re.fullmatch(r"([^:@]+)(?::([^@]+))?(?:@(sha256:[0-9a-f]{64}))?", path)
        if found is None or not self.knows(found[1]):
            return None
        manifest = self.manifest(found[1], found[3] or found[2] or "latest")
        if manifest is None:
            raise PullError(f"manifest for {reference} not found: manifest unknown: Requested image not found")
        return f"{self._address}/{found[1]}@sha256:{hashlib.sha256(manifest).hexdigest()}"

    def platforms(self, reference: str) -> list[dict[str, str]]:
        """What an image is for; this machine's own root is for this machine.

        Raises:
            PullError: The repository has no such image.
        """
        pinned = self.pinned(reference)
        if pinned is None:
            return [{"os": "linux", "architecture": architecture()}]
        found = json.loads(self._crane("manifest", pinned))
        if "manifests" in found:
            return [{**each.get("platform", {}), "digest": each["digest"]} for each in found["manifests"]]
        config = json.loads(self._crane("config", pinned))
        return [{"os": config.get("os", "linux"), "architecture": config.get("architecture", "")}]

    def knows(self, repository: str) -> bool:
        """Whether a repository has received a push."""
        return self._process is not None and self._get(f"{repository}/tags/list") is not None

    def manifest(self, repository: str, reference: str) -> bytes | None:
        return self._get(f"{repository}/manifests/{reference}")

    def blob(self, repository: str, digest: str) -> bytes | None:
        return self._get(f"{repository}/blobs/{digest}")

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "registry.log"
        command = [str(crane()), "registry", "serve", "--address", "127.0.0.1:0", "--disk", str(self._folder / "blobs")]
        (self._folder / "blobs").mkdir(exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        end = time.monotonic() + START_SECONDS
        while not (found := re.search(r"serving on port (\d+)", log.read_text())):
            if self._process.poll() is not None or time.monotonic() > end:
                raise OSError(f"the registry did not start: {log.read_text()}")
            time.sleep(0.02)
        self._address = f"127.0.0.1:{found[1]}"

    def _get(self, path: str) -> bytes | None:
        request = urllib.request.Request(f"http://{self._address}/v2/{path}", headers={"Accept": MANIFESTS})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            error.close()
            return None

    def _unpack(self, reference: str, folder: Path) -> Image:
        note = folder / "config.json"
        if not note.exists():
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "root").mkdir(parents=True)
            archive = folder / "image.tar"
            self._crane("export", reference, str(archive))
            with tarfile.open(archive) as tar:
                tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # which Python has from 3.11.4 on
                tar.extractall(folder / "root")
            archive.unlink()
            note.write_text(self._crane("config", reference))
        return Image(folder / "root", json.loads(note.read_text()).get("config", {}))

    @staticmethod
    def _crane(*arguments: str) -> str:
        command = [str(crane()), *arguments]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            if done.returncode == 0:
                return done.stdout
            raise PullError(done.stderr.strip())
        raise PullError(f"{arguments[0]} took longer than {SECONDS} s")
