"""Google's discovery documents: the method that a request calls, and whether its parameters and body are valid.

The documents ship with google-api-python-client; each is read at the first call of its API (the largest, Compute's,
takes 70 ms).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import googleapiclient

from localcloud.gcp import schema
from localcloud.gcp.wire import Request, RestError

VERSIONS = {
    "artifactregistry": ["v1"], "bigquery": ["v2"], "billingbudgets": ["v1"], "cloudfunctions": ["v2"],
    "cloudkms": ["v1"], "cloudresourcemanager": ["v3", "v1"], "cloudscheduler": ["v1"], "compute": ["v1"],
    "file": ["v1"],
    "compute/beta": ["beta"],
    "iam": ["v1"], "iamcredentials": ["v1"], "logging": ["v2"], "monitoring": ["v3", "v1"], "pubsub": ["v1"],
    "run": ["v2"], "secretmanager": ["v1"], "serviceusage": ["v1", "v1beta1"], "storage": ["v1"],
}  # fmt: skip
"""`<api>/beta` has the methods whose path begins so: the others of an API have one path for all versions."""
Document = dict[str, Any]


@dataclass
class Method:
    document: Document
    spec: Document
    regex: re.Pattern[str]
    verb_at: str  # the part after the resource's name in the path: `:publish`, `/setIamPolicy` or nothing

    @property
    def id(self) -> str:
        """The id, such as `pubsub.projects.topics.publish`."""
        return self.spec["id"]

    @property
    def verb(self) -> str:
        """The last word of the id."""
        return self.id.rpartition(".")[2]

    @property
    def request(self) -> str:
        """The name of the body's schema, empty without a body."""
        return self.spec.get("request", {}).get("$ref", "")

    @property
    def response(self) -> str:
        """The name of the answer's schema."""
        return self.spec.get("response", {}).get("$ref", "")


@dataclass
class Call:
    """A parsed request.

    Attributes:
        name: The resource or, for lists and creations, the collection: `projects/p/topics/t`.
        params: Path and query parameters, converted to their types.
        body: The checked body without output-only fields; None when the method takes no body.
    """

    method: Method
    name: str
    params: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        return self.method.id


@functools.cache
def documents(api: str) -> list[Document]:
    """The discovery documents of an API, the newest version first."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    name = api.partition("/")[0]
    return [json.loads((folder / f"{name}.{version}.json").read_bytes()) for version in VERSIONS[api]]


def methods(node: Document) -> Iterator[Document]:
    """Every method of a document or of a part of it."""
    yield from node.get("methods", {}).values()
    for part in node.get("resources", {}).values():
        yield from methods(part)


@functools.cache
def method(api: str, method_id: str) -> Method:
    return next(known for bucket in _routes(api).values() for known in bucket if known.id == method_id)


def resource_of(known: Method) -> str:
    """The schema of the resource of a method: the response of `get` in the same collection."""
    group = known.id.rpartition(".")[0]
    try:
        return method(known.id.partition(".")[0], f"{group}.get").response
    except StopIteration:
        return known.response


def inner_key(known: Method) -> str:
    """The field of a request that holds the resource (`{"topic": {…}, "updateMask": …}`), empty if there is none."""
    wanted, schema = resource_of(known), known.document["schemas"].get(known.request, {})
    found = (key for key, spec in schema.get("properties", {}).items() if spec.get("$ref") == wanted)
    return "" if known.request == wanted else next(found, "")


@functools.cache
def _routes(api: str) -> dict[tuple[str, int], list[Method]]:
    """Methods by HTTP method and number of slashes (-1: any), the most specific first."""
    table: dict[tuple[str, int], list[Method]] = {}
    for document in documents(api):
        for spec in methods(document):
            regex, slashes = _regex(spec)
            last = re.search(r"(:\w+|/[^/{}:]+)$", spec["path"])
            word = last[1][1:] if last else ""
            is_verb = word == spec["id"].rpartition(".")[2] or spec["path"].endswith((f":{word}", "/iam"))
            found = Method(document, spec, regex, last[1] if last and is_verb else "")
            table.setdefault((spec["httpMethod"], slashes), []).append(found)
    for bucket in table.values():
        bucket.sort(key=lambda known: len(re.sub(r"\{[^}]*\}", "", known.spec["path"])), reverse=True)
    return table


def _regex(spec: Document) -> tuple[re.Pattern[str], int]:
    """The path's pattern, with path parameters as groups, and the number of its slashes or -1."""
    text, slashes = "", 0
    for part in re.split(r"(\{[^}]*\})", spec["path"]):
        if not part.startswith("{"):
            text, slashes = text + re.escape(part), slashes + part.count("/")
            continue
        name = part.strip("{+}")
        pattern = spec["parameters"][name].get("pattern") if part[1] == "+" else None
        pattern = (pattern or "[^/]+").strip("^$")
        slashes = -1000 if re.search(r"(?<!\])\.[*+]", pattern) else slashes + pattern.replace("[^/]", "").count("/")
        pattern = re.sub(r"\((?!\?)", "(?:", pattern)
        text += f"(?P<{name}>{pattern})"
    return re.compile(text), max(slashes, -1)


def route(api: str, http_method: str, path: str) -> tuple[Method, dict[str, str], str] | None:
    """The method of a request, its path parameters, and the resource's name; None if no method matches."""
    if api not in VERSIONS:
        return None
    if f"{api}/beta" in VERSIONS and path.startswith(f"{api}/beta/"):
        api = f"{api}/beta"
    base = documents(api)[0]["servicePath"]
    for prefix in (base, base.partition("/")[2]):
        if prefix and path.startswith(prefix):
            path = path.removeprefix(prefix)
            break
    for key in ((http_method, path.count("/")), (http_method, -1)):
        for known in _routes(api).get(key, []):
            match = known.regex.fullmatch(path)
            if match:
                name = path.removesuffix(known.verb_at) if known.verb_at else path
                name = re.sub(r"^v\d\w*/", "", name)
                return known, {k: unquote(v) for k, v in match.groupdict().items()}, unquote(name)
    return None


def understand(request: Request) -> Call:
    """The call that a request makes, with checked parameters and body.

    Raises:
        RestError: 404: no method matches; 400: a parameter or field is unknown, missing or wrong; the text names it.
    """
    found = route(request.api, request.method, request.path)
    if found is None:
        raise RestError(404, f"The requested URL {request.method} /{request.api}/{request.path} was not found.")
    known, params, name = found
    call = Call(known, name, {**params, **_query(known, request.query)})
    if "autoscaler" in call.params and call.name.endswith("/autoscalers"):  # PATCH and PUT name it in the query
        call.name = f"{call.name}/{call.params['autoscaler']}"
    if known.request:
        call.body = schema.check(known.document, known.request, request.json(), known.id, set(params))
    elif request.json():
        raise RestError(400, f"{known.id} takes no body.")
    return call


def _query(known: Method, query: dict[str, list[str]]) -> dict[str, Any]:
    specs = {k: v for k, v in known.spec.get("parameters", {}).items() if v["location"] == "query"}
    result: dict[str, Any] = {}
    for given, values in query.items():
        # Both the JSON name and the original field name are accepted: https://protobuf.dev/programming-guides/json
        name = re.sub(r"_([a-z])", lambda match: match[1].upper(), given)
        if name not in specs:
            if name not in known.document.get("parameters", {}):
                text = f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.'
                raise RestError(400, text, field=name)
            continue
        typed = [schema.from_text(specs[name], value, name) for value in values]
        result[name] = typed if specs[name].get("repeated") else typed[-1]
    for name, spec in specs.items():
        if spec.get("required") and name not in result:
            raise RestError(400, f"Required parameter: {name}", field=name)
    return result
