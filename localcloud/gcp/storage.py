"""Cloud Storage: the XML API as obstore uses it, and the JSON API of objects; the generic server serves buckets.

Both check the permission on each object by name, so that conditions on names hold. On request a write or read fails
as its client must expect: before it is done (409, 412, 429, a dropped connection) or after (500, dropped).
"""

from __future__ import annotations

import base64
import email
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

from localcloud.faults import DropConnectionError, Faults
from localcloud.gcp.objects import ConditionNotMetError, Content, Objects, Stored
from localcloud.gcp.wire import Request, Response, RestError

if TYPE_CHECKING:
    from localcloud.gcp.serve import Site

JSON_PATH = re.compile(r"(upload/)?(?:storage/v1/)?b/([^/]+)(/o(?:/(.+))?)?$")
XML_PATH = re.compile(r"([^/]{3,})(?:/(.*))?$")
XML_CODES = {400: "InvalidArgument", 401: "AuthenticationRequired", 403: "AccessDenied", 404: "NoSuchKey",
             409: "Conflict", 412: "PreconditionFailed", 416: "InvalidRange", 429: "SlowDown",
             500: "InternalError", 501: "NotImplemented"}  # fmt: skip
"""https://cloud.google.com/storage/docs/xml-api/reference-status"""
PAGE = 1000
BURST = 5.0
XML_LIST = {"list-type", "prefix", "delimiter", "start-after", "continuation-token", "max-keys"}
JSON_LIST = {
    "prefix",
    "delimiter",
    "maxResults",
    "pageToken",
    "fields",
    "alt",
    "prettyPrint",
    "versions",
    "startOffset",
}
"""With `versions` or without: only the live generation is kept."""
CONDITIONS = {"if-match", "if-none-match", "x-goog-if-generation-match", "ifGenerationMatch"}
META = "x-goog-meta-"
FAULTS = {"409": "Conflict: the object was edited during the operation.", "412": "The conditions were not met.",
          "429": "The object exceeded the rate limit.", "500-after": "We encountered an internal error.",
          "drop": "", "drop-after": ""}  # fmt: skip


class Storage:
    """The plug-in."""

    apis = ("storage",)
    raw = True

    def __init__(self, site: Site) -> None:
        self._site = site
        self.objects = Objects(site.state / "objects", site.clock.now)
        self._faults = Faults(FAULTS)
        self._pails: dict[tuple[str, str], float] = {}
        self.controls = {"faults": self._faults.control}

    def handle(self, request: Request) -> Response | None:
        """Answer calls on objects; calls on buckets go to the generic server."""
        if found := JSON_PATH.match(request.path):
            if found[3] is None:
                return self._bucket(request, unquote(found[2]))
            bucket, name = unquote(found[2]), unquote(found[4] or request.query.get("name", [""])[0])
            return self._with_faults(request, name, lambda: self._json(request, bucket, name, bool(found[1])))
        if request.path.startswith(("b/", "b?", "storage/v1/")) or request.path == "b":
            return None
        found = XML_PATH.match(request.path)
        if not found:
            return None
        bucket, name = unquote(found[1]), unquote(found[2] or "")
        try:
            return self._with_faults(request, name, lambda: self._xml(request, bucket, name))
        except RestError as error:
            code = "NoSuchBucket" if error.code == 404 and not name else XML_CODES.get(error.code, "InternalError")
            body = f"<Error><Code>{code}</Code><Message>{escape(error.message)}</Message></Error>"
            return _document(body, error.code)

    def _with_faults(self, request: Request, name: str, answer: Callable[[], Response]) -> Response:
        asked = [key for key in (*request.headers, *request.query) if key.startswith(("if", "x-goog-if-"))]
        if others := set(asked) - CONDITIONS:
            raise RestError(501, f"localcloud does not know the condition {', '.join(sorted(others))}")
        fault = self._faults.take(request.method, name)
        if fault is None:
            try:
                return answer()
            except ConditionNotMetError:
                raise RestError(412, "At least one of the pre-conditions you specified did not hold.") from None
        if fault.endswith("-after"):
            answer()
        if fault.startswith("drop"):
            raise DropConnectionError
        raise RestError(int(fault[:3]), FAULTS[fault])

    def _bucket(self, request: Request, bucket: str) -> Response | None:
        """Delete only empty buckets."""
        if request.method == "DELETE" and self.objects.list(bucket, limit=1).objects:
            self._site.policy.check(request.principal, "storage.buckets.delete", f"storage/projects/_/buckets/{bucket}")
            raise RestError(409, "The bucket you tried to delete is not empty.")
        return None

    def _check(self, request: Request, verb: str, bucket: str, name: str = "", prefix: str = "") -> None:
        place = f"storage/projects/_/buckets/{bucket}"
        if not self._site.resources.get(place):
            raise RestError(404, "The specified bucket does not exist.")
        asked = f"{place}/objects/{name}" if name else place
        listed = {"storage.googleapis.com/objectListPrefix": prefix} if verb == "list" else None
        self._site.policy.check(request.principal, f"storage.objects.{verb}", asked, listed)

    def _existing(self, request: Request, bucket: str, name: str, verb: str = "get") -> Stored:
        self._check(request, verb, bucket, name)
        stored, wanted = self.objects.get(bucket, name), request.query.get("generation")
        if stored and wanted and wanted != [str(stored.generation)]:
            stored = None
        if stored is None:  # a caller who may not list does not learn that the object is missing
            self._check(request, "list", bucket)
            raise RestError(404, f"No such object: {bucket}/{name}")
        return stored

    def _write(self, request: Request, bucket: str, name: str, content: Content) -> Stored:
        """Write an object; a writer that replaces one must also be allowed to delete it."""
        self._check(request, "create", bucket, name)
        demanded = _demanded(request)
        there = self.objects.get(bucket, name)
        if there and demanded in (None, there.generation):
            self._check(request, "delete", bucket, name)
            self._keep_pace(bucket, name)
        return self.objects.put(bucket, name, content, demanded)

    def _keep_pace(self, bucket: str, name: str) -> None:
        """Cloud Storage takes one write per second for each name (https://cloud.google.com/storage/quotas#objects), and
        may refuse more. This uses the wall clock, as writers do; the permitted burst is a guess."""
        now, key = time.monotonic(), (bucket, name)
        # Each write fills a pail that leaks one per second.
        self._pails = {held: pail for held, pail in self._pails.items() if pail > now}
        if self._pails.get(key, now) > now + BURST:
            raise RestError(429, FAULTS["429"])
        self._pails[key] = self._pails.get(key, now) + 1

    def _remove(self, request: Request, bucket: str, name: str) -> Response:
        self._existing(request, bucket, name, "delete")
        if not self.objects.delete(bucket, name, _demanded(request)):
            raise RestError(404, f"No such object: {bucket}/{name}")
        return Response(204)

    def _xml(self, request: Request, bucket: str, name: str) -> Response:
        method, query = request.method, request.query
        if not name:
            if method != "GET":
                raise RestError(501, f"localcloud has no {method} of a bucket in the XML API")
            return self._xml_list(request, bucket)
        if method in ("GET", "HEAD"):
            return _content(request, self._existing(request, bucket, name))
        if "uploads" in query or "uploadId" in query:
            return self._multipart(request, bucket, name)
        if method == "DELETE":
            return self._remove(request, bucket, name)
        if method != "PUT":
            raise RestError(501, f"localcloud has no {method} of an object in the XML API")
        content = Content(request.body, request.headers.get("content-type", ""), _metadata(request))
        if source := request.headers.get("x-goog-copy-source"):
            origin, _, key = unquote(source).lstrip("/").partition("/")
            copied = self._existing(request, origin, key)
            content = Content(copied.read(), copied.content_type, copied.metadata)
        stored = self._write(request, bucket, name, content)
        if source:
            return _document(
                f'<CopyObjectResult><ETag>"{stored.md5}"</ETag></CopyObjectResult>', headers=_headers(stored)
            )
        return Response(200, b"", _headers(stored))

    def _multipart(self, request: Request, bucket: str, name: str) -> Response:
        self._check(request, "create", bucket, name)
        part = f"storage/projects/_/buckets/{bucket}/objects/{name}"
        verb = "abort" if request.method == "DELETE" else "create"
        self._site.policy.check(request.principal, f"storage.multipartUploads.{verb}", part)
        place, upload = f"<Bucket>{bucket}</Bucket><Key>{escape(name)}</Key>", request.query.get("uploadId", [""])[0]
        if "uploads" in request.query:
            began = f"{place}<UploadId>{self.objects.begin()}</UploadId>"
            return _document(f"<InitiateMultipartUploadResult>{began}</InitiateMultipartUploadResult>")
        if request.method == "PUT":
            number = int(request.query["partNumber"][0])
            if not self.objects.part(upload, number, request.body):
                raise RestError(404, "The requested upload was not found.")
            return Response(200, b"", {"ETag": f'"{number}"'})
        body = self.objects.end(upload)
        if body is None:
            raise RestError(404, "The requested upload was not found.")
        if request.method == "DELETE":
            return Response(204)
        stored = self._write(request, bucket, name, Content(body, request.headers.get("content-type", "")))
        ended = f'{place}<ETag>"{stored.md5}"</ETag>'
        body = f"<CompleteMultipartUploadResult>{ended}</CompleteMultipartUploadResult>"
        return _document(body, headers={"x-goog-generation": str(stored.generation)})

    def _xml_list(self, request: Request, bucket: str) -> Response:
        asked = _asked(request, XML_LIST)
        prefix = asked.get("prefix", "")
        self._check(request, "list", bucket, prefix=prefix)
        after = max(asked.get("start-after", ""), _untoken(asked.get("continuation-token", "")))
        limit = min(int(asked.get("max-keys") or PAGE), PAGE)
        page = self.objects.list(bucket, prefix, asked.get("delimiter", ""), after, limit)
        parts = [f"<Name>{bucket}</Name><IsTruncated>{'true' if page.more else 'false'}</IsTruncated>"]
        if page.more:
            parts.append(f"<NextContinuationToken>{_token(page.more)}</NextContinuationToken>")
        parts += [f'<Contents><Key>{escape(o.name)}</Key><LastModified>{_iso(o.updated)}</LastModified><ETag>"{o.md5}"'
                  f"</ETag><Size>{o.size}</Size><Generation>{o.generation}</Generation></Contents>"
                  for o in page.objects]  # fmt: skip
        parts += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in page.prefixes]
        return _document(f"<ListBucketResult>{''.join(parts)}</ListBucketResult>")

    def _json(self, request: Request, bucket: str, name: str, upload: bool) -> Response:
        if upload:
            body, described = _uploaded(request)
            name = name or described.get("name", "")
            content = Content(body, described.get("contentType", ""), described.get("metadata", {}))
            stored = self._write(request, bucket, name, content)
            return Response.of(_resource(bucket, stored))
        if not name and request.method == "GET":
            return self._json_list(request, bucket)
        if name and request.method == "DELETE":
            return self._remove(request, bucket, name)
        if not name or request.method != "GET":
            raise RestError(501, f"localcloud has no {request.method} {request.path}")
        stored = self._existing(request, bucket, name)
        if request.query.get("alt") == ["media"]:
            return _content(request, stored)
        return Response.of(_resource(bucket, stored))

    def _json_list(self, request: Request, bucket: str) -> Response:
        asked = _asked(request, JSON_LIST)
        prefix = asked.get("prefix", "")
        self._check(request, "list", bucket, prefix=prefix)
        limit = min(int(asked.get("maxResults") or PAGE), PAGE)
        after, first = _untoken(asked.get("pageToken", "")), asked.get("startOffset", "")
        page = self.objects.list(bucket, prefix, asked.get("delimiter", ""), after, limit, first=first)
        answer: dict[str, Any] = {"kind": "storage#objects"}
        if page.objects:
            answer["items"] = [_resource(bucket, stored) for stored in page.objects]
        if page.prefixes:
            answer["prefixes"] = page.prefixes
        if page.more:
            answer["nextPageToken"] = _token(page.more)
        return Response.of(answer)


def _asked(request: Request, known: set[str]) -> dict[str, str]:
    """The query's parameters; an unknown one is refused."""
    if others := request.query.keys() - known:
        raise RestError(501, f"localcloud does not know {', '.join(sorted(others))} in a listing")
    return {key: values[0] for key, values in request.query.items()}


def _demanded(request: Request) -> int | None:
    text = request.headers.get("x-goog-if-generation-match") or request.query.get("ifGenerationMatch", [""])[0]
    return int(text) if text else None


def _metadata(request: Request) -> dict[str, str]:
    return {key.removeprefix(META): value for key, value in request.headers.items() if key.startswith(META)}


def _headers(stored: Stored) -> dict[str, str]:
    return {
        "ETag": f'"{stored.md5}"',
        "Last-Modified": formatdate(stored.updated, usegmt=True),
        "x-goog-generation": str(stored.generation),
        "x-goog-hash": f"md5={base64.b64encode(bytes.fromhex(stored.md5)).decode()}",
        **{META + key: value for key, value in stored.metadata.items()},
    }


def _content(request: Request, stored: Stored) -> Response:
    """The content or the requested range of it, under the conditions that are set."""
    if (demanded := _demanded(request)) is not None and demanded != stored.generation:
        raise ConditionNotMetError
    headers = {**_headers(stored), "Content-Type": stored.content_type or "application/octet-stream"}
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


def _uploaded(request: Request) -> tuple[bytes, dict[str, Any]]:
    """The content and the metadata in a `media` or `multipart` upload."""
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


def _resource(bucket: str, stored: Stored) -> dict[str, Any]:
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
        "timeCreated": _iso(stored.updated),
        "updated": _iso(stored.updated),
        "storageClass": "STANDARD",
        **({"metadata": stored.metadata} if stored.metadata else {}),
    }


def _document(body: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    text = f"<?xml version='1.0' encoding='UTF-8'?>{body}"
    return Response(status, text.encode(), {**(headers or {}), "Content-Type": "application/xml; charset=UTF-8"})


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _untoken(token: str) -> str:
    return base64.urlsafe_b64decode(token).decode()
