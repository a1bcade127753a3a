"""The worker's image of this checkout, built once per content and kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import sys
import time

from worker_image import image, tools, tree

DAY_SECONDS = 86400


def build(architecture: str | None = None) -> image.BuildResult:
    """The image for AWS, as `image.build` makes it. It is read-only."""
    folder = tools.cache() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{_key()}{architecture or ''}"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            # Other checkouts' tests may use theirs right now.
            aged = [each for each in folder.iterdir() if each.stat().st_mtime < time.time() - DAY_SECONDS]
            for old in [folder / "new", *aged]:
                shutil.rmtree(old, ignore_errors=True)
            fresh = image.build(folder / "new", architecture)
            (folder / "new" / "built.json").write_text(json.dumps([fresh.digest, fresh.size]))
            (folder / "new").rename(kept)
    return image.BuildResult(kept / "tree", kept / "image", *json.loads((kept / "built.json").read_text()))


def _key() -> str:
    sources = [path for top in ("tidemill", "worker_image") for path in sorted((tree.ROOT / top).rglob("*"))]
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    for path in [tree.LOCK, *sources]:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(tree.ROOT)} {path.stat().st_mode}".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
