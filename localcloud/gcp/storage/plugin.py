"""Cloud Storage: the XML API as obstore uses it, and the JSON API of objects; the generic server serves buckets.

Both check the permission on each object by name, so that conditions on names hold. On request a write or read fails
as its client must expect: before it is done (409, 412, 429, a dropped connection) or after (500, dropped).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import unquote
from xml.sax.saxutils import escape

from localcloud.faults import DropConnectionError, Faults
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.storage import notifications
from localcloud.gcp.storage.answers import (
    content_of,
    demanded_by,
    document,
    headers_of,
    iso,
    metadata_of,
    query_of,
    resource_of,
    token,
    untoken,
    uploaded,
)
from localcloud.gcp.storage.objects import ConditionNotMetError, Content, Objects, Stored
from localcloud.gcp.wire import Request, Response, RestError

JSON_PATH = re.compile(r"(upload/)?(?:storage/v1/)?b/([^/]+)(/o(?:/(.+))?)?$")
COPY = re.compile(r"(.+)/rewriteTo/b/([^/]+)/o/(.+)")
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
CONDITIONS = {"if-match", "if-none-match", "x-goog-if-generation-match", "ifGenerationMatch"}
FAULTS = {"409": "Conflict: the object was edited during the operation.", "412": "The conditions were not met.",
          "429": "The object exceeded the rate limit.", "500-after": "We encountered an internal error.",
          "drop": "", "drop-after": ""}  # fmt: skip


class Storage(Plugin):
    apis = ("storage",)
    raw = True
    options: ClassVar = {"object_writes_per_second": (1.0, "how many writes of a name Cloud Storage takes")}

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._write_seconds = 1 / site.options.object_writes_per_second
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
            if request.method == "POST" and request.path.endswith(f"/{notifications.FOLDER}"):
                notifications.check(self._site, request.json().get("topic", ""))
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
            return document(body, error.code)

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
        left = self.objects.list(bucket, limit=1).objects or self.objects.older(bucket, "")
        if request.method == "DELETE" and left:
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
        live, wanted = self.objects.get(bucket, name), request.query.get("generation")
        held = [*([live] if live else []), *(each for each in self.objects.older(bucket, name) if each.name == name)]
        stored = next((each for each in held if [str(each.generation)] == wanted), None) if wanted else live
        if stored is None:  # a caller who may not list does not learn that the object is missing
            self._check(request, "list", bucket)
            raise RestError(404, f"No such object: {bucket}/{name}")
        return stored

    def _write(self, request: Request, bucket: str, name: str, content: Content) -> Stored:
        """Write an object; a writer that replaces one must also be allowed to delete it."""
        self._check(request, "create", bucket, name)
        demanded = demanded_by(request)
        there = self.objects.get(bucket, name)
        if there and demanded in (None, there.generation):
            self._check(request, "delete", bucket, name)
            self._keep_pace(bucket, name)
        stored = self.objects.put(bucket, name, content, demanded, keep=self._keeps(bucket))
        notifications.notify(self._site, bucket, stored)
        return stored

    def _keeps(self, bucket: str) -> bool:
        """Whether a bucket keeps what is replaced or deleted.

        Source: https://cloud.google.com/storage/docs/object-versioning
        """
        described = self._site.resources.get(f"storage/projects/_/buckets/{bucket}") or {}
        return bool((described.get("versioning") or {}).get("enabled"))

    def _keep_pace(self, bucket: str, name: str) -> None:
        """Cloud Storage takes one write per second for each name (https://cloud.google.com/storage/quotas#objects), and
        may refuse more. This uses the wall clock, as writers do; the permitted burst is a guess."""
        now, key = time.monotonic(), (bucket, name)
        # Each write fills a pail that leaks at that pace.
        self._pails = {held: pail for held, pail in self._pails.items() if pail > now}
        if self._pails.get(key, now) > now + BURST:
            raise RestError(429, FAULTS["429"])
        self._pails[key] = self._pails.get(key, now) + self._write_seconds

    def _remove(self, request: Request, bucket: str, name: str) -> Response:
        stored = self._existing(request, bucket, name, "delete")
        # A generation that is named goes for good, also the live one.
        named = "generation" in request.query
        if stored.deleted is not None:
            gone = self.objects.forget(bucket, name, stored.generation)
        else:
            gone = self.objects.delete(bucket, name, demanded_by(request), keep=self._keeps(bucket) and not named)
        if not gone:
            raise RestError(404, f"No such object: {bucket}/{name}")
        return Response(204)

    def _xml(self, request: Request, bucket: str, name: str) -> Response:
        method, query = request.method, request.query
        if not name:
            if method != "GET":
                raise RestError(501, f"localcloud has no {method} of a bucket in the XML API")
            return self._xml_list(request, bucket)
        if method in ("GET", "HEAD"):
            return content_of(request, self._existing(request, bucket, name))
        if "uploads" in query or "uploadId" in query:
            return self._multipart(request, bucket, name)
        if method == "DELETE":
            return self._remove(request, bucket, name)
        if method != "PUT":
            raise RestError(501, f"localcloud has no {method} of an object in the XML API")
        content = Content(request.body, request.headers.get("content-type", ""), metadata_of(request))
        if source := request.headers.get("x-goog-copy-source"):
            origin, _, key = unquote(source).lstrip("/").partition("/")
            copied = self._existing(request, origin, key)
            content = Content(copied.read(), copied.content_type, copied.metadata)
        stored = self._write(request, bucket, name, content)
        if source:
            return document(
                f'<CopyObjectResult><ETag>"{stored.md5}"</ETag></CopyObjectResult>', headers=headers_of(stored)
            )
        return Response(200, b"", headers_of(stored))

    def _multipart(self, request: Request, bucket: str, name: str) -> Response:
        self._check(request, "create", bucket, name)
        part = f"storage/projects/_/buckets/{bucket}/objects/{name}"
        verb = "abort" if request.method == "DELETE" else "create"
        self._site.policy.check(request.principal, f"storage.multipartUploads.{verb}", part)
        place, upload = f"<Bucket>{bucket}</Bucket><Key>{escape(name)}</Key>", request.query.get("uploadId", [""])[0]
        if "uploads" in request.query:
            began = f"{place}<UploadId>{self.objects.begin()}</UploadId>"
            return document(f"<InitiateMultipartUploadResult>{began}</InitiateMultipartUploadResult>")
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
        return document(body, headers={"x-goog-generation": str(stored.generation)})

    def _xml_list(self, request: Request, bucket: str) -> Response:
        asked = query_of(request, XML_LIST)
        prefix = asked.get("prefix", "")
        self._check(request, "list", bucket, prefix=prefix)
        after = max(asked.get("start-after", ""), untoken(asked.get("continuation-token", "")))
        limit = min(int(asked.get("max-keys") or PAGE), PAGE)
        page = self.objects.list(bucket, prefix, asked.get("delimiter", ""), after, limit)
        parts = [f"<Name>{bucket}</Name><IsTruncated>{'true' if page.more else 'false'}</IsTruncated>"]
        if page.more:
            parts.append(f"<NextContinuationToken>{token(page.more)}</NextContinuationToken>")
        parts += [f'<Contents><Key>{escape(o.name)}</Key><LastModified>{iso(o.updated)}</LastModified><ETag>"{o.md5}"'
                  f"</ETag><Size>{o.size}</Size><Generation>{o.generation}</Generation></Contents>"
                  for o in page.objects]  # fmt: skip
        parts += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in page.prefixes]
        return document(f"<ListBucketResult>{''.join(parts)}</ListBucketResult>")

    def _json(self, request: Request, bucket: str, name: str, upload: bool) -> Response:
        if upload:
            body, described = uploaded(request)
            name = name or described.get("name", "")
            content = Content(body, described.get("contentType", ""), described.get("metadata", {}))
            stored = self._write(request, bucket, name, content)
            return Response.of(resource_of(bucket, stored))
        if not name and request.method == "GET":
            return self._json_list(request, bucket)
        if request.method == "POST" and (copied := COPY.fullmatch(name)):
            return self._copied(request, (bucket, copied[1]), (copied[2], copied[3]))
        if name and request.method == "DELETE":
            return self._remove(request, bucket, name)
        if not name or request.method != "GET":
            raise RestError(501, f"localcloud has no {request.method} {request.path}")
        stored = self._existing(request, bucket, name)
        if request.query.get("alt") == ["media"]:
            return content_of(request, stored)
        return Response.of(resource_of(bucket, stored))

    def _copied(self, request: Request, source: tuple[str, str], target: tuple[str, str]) -> Response:
        """Source: https://cloud.google.com/storage/docs/json_api/v1/objects/rewrite"""
        read = self._existing(request, *source)
        stored = self._write(request, *target, Content(read.read(), read.content_type, read.metadata))
        size, described = str(stored.size), resource_of(target[0], stored)
        return Response.of({"done": True, "objectSize": size, "totalBytesRewritten": size, "resource": described})

    def _json_list(self, request: Request, bucket: str) -> Response:
        asked = query_of(request, JSON_LIST)
        prefix = asked.get("prefix", "")
        self._check(request, "list", bucket, prefix=prefix)
        limit = min(int(asked.get("maxResults") or PAGE), PAGE)
        after, first = untoken(asked.get("pageToken", "")), asked.get("startOffset", "")
        page = self.objects.list(bucket, prefix, asked.get("delimiter", ""), after, limit, first=first)
        answer: dict[str, Any] = {"kind": "storage#objects"}
        # Noncurrent generations come with the last page, in no order of names.
        older = self.objects.older(bucket, prefix) if asked.get("versions") == "true" and not page.more else []
        if items := [*older, *page.objects]:
            answer["items"] = [resource_of(bucket, stored) for stored in items]
        if page.prefixes:
            answer["prefixes"] = page.prefixes
        if page.more:
            answer["nextPageToken"] = token(page.more)
        return Response.of(answer)
