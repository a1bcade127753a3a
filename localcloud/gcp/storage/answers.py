"""What the XML and the JSON API of objects have in common: queries, conditions, contents and descriptions."""

from __future__ import annotations

import base64
import email
import json
import re
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

from localcloud.gcp.storage.objects import ConditionNotMetError, Stored
from localcloud.gcp.wire import Request, Response, RestError

META = "x-goog-meta-"


def query_of(request: Request, known: set[str]) -> dict[str, str]:
    """The query's parameters; an unknown one is refused."""
    if others := request.query.keys() - known:
        raise RestError(501, f"localcloud does not know {', '.join(sorted(others))} in a listing")
    return {key: values[0] for key, values in request.query.items()}


def demanded_by(request: Request) -> int | None:
    text = request.headers.get("x-goog-if-generation-match") or request.query.get("ifGenerationMatch", [""])[0]
    return int(text) if text else None


def metadata_of(request: Request) -> dict[str, str]:
    return {key.removeprefix(META): value for key, value in request.headers.items() if key.startswith(META)}


def headers_of(stored: Stored) -> dict[str, str]:
    return {
        "ETag": f'"{stored.md5}"',
        "Last-Modified": formatdate(stored.updated, usegmt=True),
        "x-goog-generation": str(stored.generation),
        "x-goog-hash": f"md5={base64.b64encode(bytes.fromhex(stored.md5)).decode()}",
        **{META + key: value for key, value in stored.metadata.items()},
    }


def content_of(request: Request, stored: Stored) -> Response:
    """The content or the requested range of it, under the conditions that are set."""
    if (demanded := demanded_by(request)) is not None and demanded != stored.generation:
        raise ConditionNotMetError
    headers = {**headers_of(stored), "Content-Type": stored.content_type or "application/octet-stream"}
    if request.headers.get("if-none-match", "").strip('"') == stored.md5:
        return Response(304, b"", headers)
    if request.headers.get("if-match", stored.md5).strip('"') not in (stored.md5, "*"):
        raise ConditionNotMetError
    start, end, status = 0, stored.size, 200
    if found := re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", "")):
        start = int(found[1]) if found[1] else max(0, stored.size - int(found[2]))
        end = min(int(found[2]) + 1, stored.size) if found[1] and found[2] else stored.size
        if start >= stored.size or start >= end:
            raise RestError(416, "The requested range cannot be satisfied.")
        status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{stored.size}"
    if request.method == "HEAD":
        return Response(status, b"", {**headers, "Content-Length": str(end - start)})
    return Response(status, stored.read(start, end), headers)


def uploaded(request: Request) -> tuple[bytes, dict[str, Any]]:
    """The content and the description in a `media` or `multipart` upload."""
    kind = request.headers.get("content-type", "")
    if request.query.get("uploadType") == ["media"]:
        return request.body, {"contentType": kind}
    if request.query.get("uploadType") != ["multipart"]:
        raise RestError(501, "localcloud takes uploads of the types media and multipart")
    parts = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + request.body).get_payload()
    if not isinstance(parts, list) or len(parts) != 2:
        raise RestError(400, "a multipart upload has a description and a content")
    # the library that read the parts may change line ends within the content, so it is cut out of the body itself
    description: dict[str, Any] = json.loads(parts[0].get_payload(decode=True))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    boundary = b"--" + re.findall(r'boundary="?([^";]+)', kind)[0].encode()
    _, _, second, _ = re.split(rb"(?:^|\r?\n)" + re.escape(boundary) + rb"(?:--)?(?:\r?\n|$)", request.body, maxsplit=3)
    head, _, content = re.split(rb"(\r?\n\r?\n)", second, maxsplit=1)
    typed = re.search(rb"(?im)^content-type:\s*(\S+)", head)
    return content, {"contentType": typed[1].decode() if typed else "", **description}


def resource_of(bucket: str, stored: Stored) -> dict[str, Any]:
    """An object as the JSON API describes it: https://cloud.google.com/storage/docs/json_api/v1/objects#resource"""
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{stored.name}/{stored.generation}",
        "name": stored.name,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "contentType": stored.content_type,
        "size": str(stored.size),
        "md5Hash": base64.b64encode(bytes.fromhex(stored.md5)).decode(),
        "etag": stored.md5,
        "timeCreated": iso(stored.updated),
        "updated": iso(stored.updated),
        "storageClass": "STANDARD",
        **({"metadata": stored.metadata} if stored.metadata else {}),
        **({} if stored.deleted is None else {"timeDeleted": iso(stored.deleted)}),
    }


def document(body: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = f"<?xml version='1.0' encoding='UTF-8'?>{body}"
    return Response(status, text.encode(), {**(headers or {}), "Content-Type": "application/xml; charset=UTF-8"})


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def untoken(token: str) -> str:
    return base64.urlsafe_b64decode(token).decode()
