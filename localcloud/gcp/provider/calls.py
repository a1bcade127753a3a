"""Calls of Google's APIs, and operations that need several: IAM members, parts of another resource, uploads."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession

from localcloud.gcp import discovery
from localcloud.provider.table import Row

from .assets import content_of

Props = dict[str, Any]
SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
SECONDS = 120
BOUNDARY = "one-object-of-localcloud"
TRIES = 20
"""How often a policy is read and written again while others write it too; Google refuses an outdated etag."""


class GoogleError(RuntimeError):
    """An error of an API, with its own message; `code` is the HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Calls:
    """Clients of every API. google-auth logs in; `CLOUDSDK_API_ENDPOINT_OVERRIDES_<API>` gives their addresses."""

    errors: tuple[type[Exception], ...] = (GoogleError,)

    def __init__(self, project: str, region: str) -> None:
        self.project, self.region = project, region
        self._local = threading.local()
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def words(self, region: str) -> Props:
        """Words that templates may use, in addition to a resource's own values."""
        return {"project": self.project, "location": None}

    def placed(self, this: Row) -> Props:
        """Settings of the provider that a resource of this type takes where it has no value of its own."""
        return {key: getattr(self, key) for key in ("project", "region") if f"{{{key}}}" in this.at}

    def gone(self, error: Exception) -> bool:
        """Whether an error means that the resource does not exist."""
        return getattr(error, "code", 0) == 404

    def call(self, service: str, operation: str, params: Props, region: str) -> Props:
        """Run an operation.

        Args:
            service: The methods' collection, such as `pubsub.projects.topics`.
            operation: The last word of a method's id, or an operation of this class: `addMember`, `upload`, …
            params: `name` of the resource, `query`, `body`, and `wrap`, the request fields around its body.
        """
        params["name"] = re.sub(r".*/(?=projects/)", "", params["name"])
        own: Callable[..., Props] | None = getattr(self, f"_{operation}", None)
        return own(service, params) if own else self._method(service, operation, params)

    def _method(self, service: str, operation: str, params: Props) -> Props:
        """Call a method, and wait for the operation that it starts."""
        method = discovery.method(service.partition(".")[0], f"{service}.{operation}")
        name, query = params["name"], dict(params.get("query") or {})
        posts = operation in ("create", "insert") and method.spec["httpMethod"] == "POST"
        if posts or (operation in ("patch", "update") and "autoscaler" in method.spec["parameters"]):
            name, _, last = name.rpartition("/")
            query |= {} if posts else {"autoscaler": last}
        body = params.get("body")
        if (body or "wrap" in params) and (key := discovery.inner_key(method)):
            body = {**(params.get("wrap") or {}), key: body or {}}
        if "mask" in params and "updateMask" in method.spec["parameters"]:
            query["updateMask"] = params["mask"]
        elif "mask" in params and discovery.inner_key(method):
            body = {**(body or {}), "updateMask": params["mask"]}
        return self._done(method, self.send(method, name, query, body))

    def send(self, method: discovery.Method, name: str, query: Props | None = None, body: Any = None) -> Props:
        """Send one request of a method, on a resource or collection."""
        bucket, slash, key = name.partition("/o/")
        name = f"{bucket}/o/{quote(key, safe='')}" if slash and method.id.startswith("storage.") else name
        version = re.match(r"v\d\w*/", method.spec["path"])
        path = (version[0] if version else method.document["servicePath"]) + name + method.verb_at
        return self.request(method.id.partition(".")[0], method.spec["httpMethod"], path, query, body)

    def request(
        self,
        api: str,
        http_method: str,
        path: str,
        query: Props | None = None,
        body: Any = None,
        *,
        headers: Any = None,
    ) -> Props:
        """Send one HTTP request; bytes are sent unchanged.

        Raises:
            GoogleError: The status is not 2xx.
        """
        root = os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}", f"https://{api}.googleapis.com/")
        query = {key: str(value).lower() if isinstance(value, bool) else value for key, value in (query or {}).items()}
        given: Props = {"data": body, "headers": headers} if isinstance(body, bytes) else {"json": body}
        try:
            answer = self._session().request(http_method, root + path, params=query, timeout=SECONDS, **given)
        except (OSError, GoogleAuthError) as error:
            raise GoogleError(0, f"{http_method} {root}{path}: {error}") from None
        if answer.ok:
            return answer.json() if answer.content else {}
        try:
            text = answer.json()["error"]["message"]
        except (ValueError, KeyError, TypeError):
            text = answer.text
        raise GoogleError(answer.status_code, f"{answer.status_code}: {text}")

    def _session(self) -> AuthorizedSession:
        if not hasattr(self._local, "session"):
            self._local.session = AuthorizedSession(google.auth.default(scopes=SCOPES)[0])
        return self._local.session

    def _done(self, method: discovery.Method, answer: Props) -> Props:
        """Wait for an operation and return its response; its error is raised as GoogleError."""
        if not method.response.endswith("Operation"):
            return answer
        end, api = time.monotonic() + 1200, method.id.partition(".")[0]
        while not (answer.get("done") or answer.get("status") == "DONE"):
            if time.monotonic() > end:
                raise GoogleError(0, f"{method.id} took longer than 20 minutes")
            time.sleep(0.2)
            path = answer.get("selfLink", "").partition(".googleapis.com/")[2] or f"v1/{answer['name']}"
            answer = self.request(api, "GET", path)
        if error := answer.get("error"):
            raise GoogleError(0, str(error.get("message") or error.get("errors")))
        return answer.get("response", answer)

    def _createRole(self, service: str, params: Props) -> Props:  # noqa: N802
        """Create a custom role. One of that id that was deleted recently is restored, as its id is still taken.

        Source: TF/resourcemanager/resource_google_project_iam_custom_role.go
        """
        try:
            found = self._method(service, "get", {"name": params["name"]})
        except GoogleError as error:
            if error.code != 404:
                raise
            return self._method(service, "create", params)
        if not found.get("deleted"):
            raise GoogleError(409, f"{params['name']} is there already")
        self._method(service, "undelete", {"name": params["name"], "body": {}})
        mask = ",".join(params["body"])
        return self._method(service, "patch", {"name": params["name"], "body": params["body"], "mask": mask})

    def _lock(self, name: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(name, threading.Lock())

    # IAM: https://cloud.google.com/iam/docs/allow-policies#read-modify-write

    def _addMember(self, service: str, params: Props) -> Props:  # noqa: N802
        def add(bindings: list[Props]) -> None:
            found = _binding(bindings, params)
            if found is None:
                bindings.append(found := {**_wanted(params), "members": []})
            found["members"] = sorted({*found["members"], params["member"]})

        return self._policy(service, params, add)

    def _removeMember(self, service: str, params: Props) -> Props:  # noqa: N802
        def remove(bindings: list[Props]) -> None:
            if found := _binding(bindings, params):
                found["members"] = [member for member in found["members"] if member != params["member"]]

        return self._policy(service, params, remove)

    def _readMember(self, service: str, params: Props) -> Props:  # noqa: N802
        policy = self._get_policy(service, params["name"])
        found = _binding(policy["bindings"], params)
        if found is None or params["member"] not in found["members"]:
            raise GoogleError(404, f"{params['name']} does not grant {params['role']} to {params['member']}")
        return {"etag": policy["etag"], "role": params["role"], "member": params["member"]}

    def _get_policy(self, service: str, name: str) -> Props:
        if service == "bigquery.datasets":
            return self._access(name)
        method = discovery.method(service.partition(".")[0], f"{service}.getIamPolicy")
        parameters = method.spec["parameters"]
        key = next((key for key in parameters if key.endswith("equestedPolicyVersion")), None)
        body = {"options": {"requestedPolicyVersion": 3}} if method.request else None
        return {"bindings": [], **self.send(method, name, {key: 3} if key else None, body)}

    def _policy(self, service: str, params: Props, change: Callable[[list[Props]], None]) -> Props:
        """Change a resource's policy, retrying while others change it too."""
        name = params["name"]
        with self._lock(name):
            for left in reversed(range(TRIES)):
                policy = self._get_policy(service, name)
                change(policy["bindings"])
                policy["bindings"] = [binding for binding in policy["bindings"] if binding["members"]]
                if any("condition" in binding for binding in policy["bindings"]):
                    policy["version"] = 3
                try:
                    return self._set_policy(service, name, policy)
                except GoogleError as error:
                    if error.code != 409 or not left:
                        raise
                    time.sleep(0.05)
        raise AssertionError

    def _set_policy(self, service: str, name: str, policy: Props) -> Props:
        if service == "bigquery.datasets":
            return self._set_access(name, policy)
        method = discovery.method(service.partition(".")[0], f"{service}.setIamPolicy")
        return self.send(method, name, None, policy if method.request == "Policy" else {"policy": policy})

    def _access(self, name: str) -> Props:
        """A dataset's access list as a policy, plus the entries that have no member (`others`).

        Source: https://cloud.google.com/bigquery/docs/reference/rest/v2/datasets (`access[].role`, `iamMember`).
        """
        dataset = self.send(discovery.method("bigquery", "bigquery.datasets.get"), name)
        bindings: list[Props] = []
        others: list[Props] = []
        for entry in dataset.get("access", []):
            if member := entry.get("iamMember"):
                bindings.append({"role": entry["role"], "members": [member]})
            else:
                others.append(entry)
        return {"bindings": bindings, "others": others, "etag": dataset["etag"]}

    def _set_access(self, name: str, policy: Props) -> Props:
        pairs = [(binding["role"], member) for binding in policy["bindings"] for member in binding["members"]]
        access = [*policy["others"], *({"role": role, "iamMember": member} for role, member in pairs)]
        return self.send(discovery.method("bigquery", "bigquery.datasets.patch"), name, None, {"access": access})

    # Parts: items in a list of another resource, such as a router's gateways

    def _putPart(self, service: str, params: Props) -> Props:  # noqa: N802
        name = params["body"]["name"]
        self._part(service, params, lambda items: [item for item in items if item["name"] != name] + [params["body"]])
        return params["body"]

    def _removePart(self, service: str, params: Props) -> Props:  # noqa: N802
        name = params["body"]["name"]
        self._part(service, params, lambda items: [item for item in items if item["name"] != name])
        return {}

    def _readPart(self, service: str, params: Props) -> Props:  # noqa: N802
        above = self._method(service.partition(":")[0], "get", {"name": params["name"]})
        for item in above.get(params["list"], []):
            if item["name"] == params["body"]["name"]:
                return item
        raise GoogleError(404, f"{params['name']} has no {params['body']['name']}")

    def _part(self, service: str, params: Props, change: Callable[[list[Props]], list[Props]]) -> None:
        group = service.partition(":")[0]
        with self._lock(params["name"]):
            above = self._method(group, "get", {"name": params["name"]})
            body = {params["list"]: change(above.get(params["list"], []))}
            self._method(group, "patch", {"name": params["name"], "body": body})

    # Objects: https://cloud.google.com/storage/docs/uploading-objects#rest-upload-objects

    def _upload(self, service: str, params: Props) -> Props:
        bucket, _, key = params["name"].removeprefix("b/").partition("/o/")
        content = content_of(params.get("content"), params.get("source"))
        given = params.get("body") or {}
        head = {"Content-Type": f"multipart/related; boundary={BOUNDARY}"}
        kind = given.get("contentType", "application/octet-stream")
        described = json.dumps({**given, "name": key}).encode()
        parts = [b"application/json\r\n\r\n" + described, f"{kind}\r\n\r\n".encode() + content]
        line = f"--{BOUNDARY}".encode()
        body = b"".join(line + b"\r\nContent-Type: " + part + b"\r\n" for part in parts) + line + b"--\r\n"
        query = {"uploadType": "multipart"}
        return self.request("storage", "POST", f"upload/storage/v1/b/{bucket}/o", query, body, headers=head)

    def _empty(self, service: str, params: Props) -> Props:
        """Delete every generation of every object of a bucket."""
        listing, delete = (discovery.method("storage", f"storage.objects.{verb}") for verb in ("list", "delete"))
        while found := self.send(listing, f"{params['name']}/o", {"versions": "true"}).get("items"):
            for item in found:
                self.send(delete, f"{params['name']}/o/{item['name']}", {"generation": item["generation"]})
        return {}

    def _destroyVersions(self, service: str, params: Props) -> Props:  # noqa: N802
        """Destroy every version of a key. The key itself stays, as Google has no method to delete one.

        Source: clearCryptoKeyVersions of the provider (TF/kms/kms_utils.go)
        """
        listing, destroy = (
            discovery.method("cloudkms", f"{service}.cryptoKeyVersions.{v}") for v in ("list", "destroy")
        )
        for version in self.send(listing, f"{params['name']}/cryptoKeyVersions").get("cryptoKeyVersions", []):
            if version["state"] == "ENABLED":
                self.send(destroy, version["name"], body={})
        return {}


def _wanted(params: Props) -> Props:
    return {"role": params["role"], **({"condition": params["condition"]} if params.get("condition") else {})}


def _binding(bindings: list[Props], params: Props) -> Props | None:
    """The binding of this role and condition: one role with two conditions has two bindings."""
    wanted = _wanted(params)
    return next((b for b in bindings if {k: v for k, v in b.items() if k in ("role", "condition")} == wanted), None)
