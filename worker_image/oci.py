"""Writes a folder as an OCI image; the same files give the same bytes.

Source: https://github.com/opencontainers/image-spec (image-layout.md, manifest.md, config.md)
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

_TYPES = "application/vnd.oci.image"
_BLOCK = 1 << 20


class Layout:
    """An OCI image layout in a new folder, with one image of one layer.

    Args:
        folder: The target; its content is deleted.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self._blobs = folder / "blobs" / "sha256"
        self._blobs.mkdir(parents=True)

    def write(self, files: Mapping[str, Path], architecture: str, config: Mapping[str, Any]) -> str:
        """Write the image and return its digest.

        Args:
            files: The source of each folder or file of the image; folders are copied whole.
            architecture: As OCI names it: ``amd64``, ``arm64``.
            config: ``Entrypoint``, ``Cmd``, ``Env`` … of the image.
        """
        layer, plain = self._layer(files)
        content = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [plain]},
        }
        image = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPES}.manifest.v1+json",
            "config": self._json(content, f"{_TYPES}.config.v1+json"),
            "layers": [layer],
        }
        manifest = self._json(image, f"{_TYPES}.manifest.v1+json")
        index = {"schemaVersion": 2, "mediaType": f"{_TYPES}.index.v1+json", "manifests": [manifest]}
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (self.folder / "index.json").write_text(json.dumps(index, sort_keys=True))
        return manifest["digest"]

    @property
    def size(self) -> int:
        """Bytes that a machine downloads."""
        return sum(path.stat().st_size for path in self._blobs.iterdir())

    def _layer(self, files: Mapping[str, Path]) -> tuple[dict[str, Any], str]:
        path = self._blobs / "layer"
        # No name and no time in the header of the compressed file: the bytes stay the same.
        with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            plain = _HashingWriter(packed)
            _write_tar(plain, files)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = path.stat().st_size
        path.rename(self._blobs / digest)
        kind = f"{_TYPES}.layer.v1.tar+gzip"
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}, f"sha256:{plain.digest}"

    def _json(self, content: Mapping[str, Any], kind: str) -> dict[str, Any]:
        data = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self._blobs / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


class _HashingWriter(io.RawIOBase):
    """Passes written data on and computes its digest."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file, self._hash = file, hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)


def _write_tar(file: io.RawIOBase, files: Mapping[str, Path]) -> None:
    entries: dict[str, Path | None] = {}
    for name, source in files.items():
        for parent in list(Path(name).parents)[-2::-1]:
            entries.setdefault(str(parent), None)
        entries[name] = source
        if source.is_dir() and not source.is_symlink():
            entries |= {f"{name}/{path.relative_to(source)}": path for path in source.rglob("*")}
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT, bufsize=_BLOCK) as tar:  # pyright: ignore[reportArgumentType, reportCallIssue]
        for name in sorted(entries):
            _add(tar, name, entries[name])


def _add(tar: tarfile.TarFile, name: str, source: Path | None) -> None:
    """Add a file, link or folder without this machine's metadata."""
    info = tarfile.TarInfo(name)
    if source is None or (source.is_dir() and not source.is_symlink()):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
    elif source.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, str(source.readlink())
        tar.addfile(info)
    else:
        status = source.stat()
        info.size, info.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        with source.open("rb") as content:
            tar.addfile(info, content)
