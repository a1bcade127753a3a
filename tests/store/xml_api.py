"""Cloud Storage's XML API as calls of its JSON API: the server decides what objects, conditions and listings do.

Source: https://cloud.google.com/storage/docs/xml-api/overview, and https://cloud.google.com/storage/docs/json_api/v1
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

from tests.store.front import Answer, Front

_PASSED = {"range", "content-type"}


class XmlApi(Front):
    """Translates requests on their way to a server that knows only the JSON API."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._uploads: dict[str, dict[int, bytes]] = {}

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The server's answer, as the XML API would give it."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, name = parts.path.removeprefix("/").partition("/")
        if not name:
            return self._listing(bucket, query)
        if "uploads" in query or "uploadId" in query:
            return self._multipart(method, bucket, unquote(name), query, body)
        if method == "PUT":
            lowered = {key.lower(): value for key, value in headers.items()}
            return self._write(bucket, unquote(name), body, lowered.get("x-goog-if-generation-match"))
        kept = {key: value for key, value in headers.items() if key.lower() in _PASSED}
        return super().ask(method, f"/storage/v1/b/{bucket}/o/{quote(unquote(name), safe='')}?alt=media", kept, b"")

    def _write(self, bucket: str, name: str, body: bytes, generation: str | None) -> Answer:
        query = {"uploadType": "media", "name": name} | ({"ifGenerationMatch": generation} if generation else {})
        sent = {"Content-Length": str(len(body)), "Content-Type": "application/octet-stream"}
        answer = super().ask("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(query)}", sent, body)
        if answer.status >= 300:
            return answer
        return Answer(200, {"ETag": json.loads(answer.body)["etag"]}, b"")

    def _multipart(self, method: str, bucket: str, name: str, query: dict[str, str], body: bytes) -> Answer:
        if "uploads" in query:
            upload = uuid4().hex
            self._uploads[upload] = {}
            return _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        upload = query["uploadId"]
        if method == "PUT":
            self._uploads[upload][int(query["partNumber"])] = body
            return Answer(200, {"ETag": f'"{query["partNumber"]}"'}, b"")
        written = self._uploads.pop(upload)
        if method == "DELETE":
            return Answer(204, {}, b"")
        answer = self._write(bucket, name, b"".join(data for _, data in sorted(written.items())), None)
        if answer.status >= 300:
            return answer
        return _xml("CompleteMultipartUploadResult", f"<ETag>{escape(answer.headers['ETag'])}</ETag>")

    def _listing(self, bucket: str, query: dict[str, str]) -> Answer:
        names = {"prefix": "prefix", "delimiter": "delimiter", "max-keys": "maxResults", "start-after": "startOffset"}
        asked = {names[key]: value for key, value in query.items() if key in names}
        if token := query.get("continuation-token"):
            asked["pageToken"] = token
        answer = super().ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}", {}, b"")
        if answer.status >= 300:
            return answer
        found: dict[str, Any] = json.loads(answer.body)
        contents = "".join(
            f"<Contents><Key>{escape(one['name'])}</Key><Size>{one['size']}</Size><ETag>1</ETag>"
            f"<LastModified>{one['updated']}</LastModified></Contents>"
            for one in found.get("items", [])
            if one["name"] != query.get("start-after")
        )
        folders = found.get("prefixes", [])
        more = found.get("nextPageToken")
        contents += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders)
        if more:
            contents += f"<NextContinuationToken>{escape(more)}</NextContinuationToken>"
        return _xml("ListBucketResult", f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated>{contents}")


def _xml(kind: str, content: str) -> Answer:
    return Answer(200, {"Content-Type": "application/xml"}, f"<{kind}>{content}</{kind}>".encode())
