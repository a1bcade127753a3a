"""The engine's assets and archives as bytes; an archive becomes a zip that depends on its content alone."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

SIGNATURE = "4dabf18193072939515e22adb298388d"
ASSET, ARCHIVE = "c44067f5952c0a294b673a41bacd8c17", "0def7320c3a5731c473e5ecbe6d01bc7"
"""https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/sig/sig.go"""
EPOCH = (1980, 1, 1, 0, 0, 0)


def content_of(content: str | None, source: Any) -> bytes:
    """The content of an object: a text, or an asset or archive."""
    if source is None:
        return (content or "").encode()
    if isinstance(source, str):
        return Path(source).read_bytes()
    if source.get(SIGNATURE) == ARCHIVE and "assets" not in source and Path(source["path"]).is_file():
        return Path(source["path"]).read_bytes()
    if source.get(SIGNATURE) != ARCHIVE:
        return _asset(source)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(_members(source).items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)
    return packed.getvalue()


def _asset(asset: dict[str, Any]) -> bytes:
    return Path(asset["path"]).read_bytes() if asset.get("path") else asset.get("text", "").encode()


def _members(archive: dict[str, Any]) -> dict[str, bytes]:
    """The files of an archive that is a folder or combines other archives."""
    if "assets" not in archive:
        folder = Path(archive["path"])
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found: dict[str, bytes] = {}
    for name, part in archive["assets"].items():
        if part.get(SIGNATURE) == ARCHIVE:
            found |= {f"{name}/{inner}": data for inner, data in _members(part).items()}
        else:
            found[name] = _asset(part)
    return found
