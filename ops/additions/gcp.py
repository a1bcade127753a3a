"""Bindings on a stack's resources, roles of its accounts and firewall rules that no state has, asked of Google."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from ops.additions import Addition, Resource, of

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_SECONDS = 30
Ask = Callable[[str, str, str, dict[str, str]], dict[str, Any] | None]
"""Asks an API by its name, method, path and query; None where there is no such thing."""

# Resources with a policy of their own: type to (its bindings' type, API, method, path, the property that names it).
# Source: the pages of getIamPolicy and buckets.getIamPolicy below https://cloud.google.com/iam/docs/reference
_OURS = "v1/projects/{project}"
_POLICIES: dict[str, tuple[str, str, str, str, str]] = {
    "gcp:storage/bucket:Bucket": (
        "gcp:storage/bucketIAMMember:BucketIAMMember", "storage", "GET", "storage/v1/b/{}/iam", "name",
    ),
    "gcp:pubsub/topic:Topic": (
        "gcp:pubsub/topicIAMMember:TopicIAMMember", "pubsub", "GET", f"{_OURS}/topics/{{}}:getIamPolicy", "name",
    ),
    "gcp:pubsub/subscription:Subscription": (
        "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember", "pubsub", "GET",
        f"{_OURS}/subscriptions/{{}}:getIamPolicy", "name",
    ),
    "gcp:serviceaccount/account:Account": (
        "gcp:serviceaccount/iAMMember:IAMMember", "iam", "POST", f"{_OURS}/serviceAccounts/{{}}:getIamPolicy", "email",
    ),
}  # fmt: skip
# Google gives each new bucket these, for the project's own owners, editors and viewers.
# Source: https://cloud.google.com/storage/docs/access-control/iam-roles#basic-roles-modifiable
_CONVENIENCE = ("projectOwner:", "projectEditor:", "projectViewer:")


REFUSALS = (GoogleAuthError, RequestException)


def asked(stack: str, state: list[Resource]) -> Iterator[Addition]:
    """Additions by hand, asked of the project that the stack's resources name."""
    named = (each.values.get("project") for each in state)
    return added(state, next((str(each) for each in named if each), ""))


def added(state: list[Resource], project: str, ask: Ask | None = None) -> Iterator[Addition]:
    """Grants by hand on a stack's resources or to its accounts, and ways into its network that were opened by hand.

    Raises:
        GoogleAuthError, RequestException: Google does not answer, or the login may not ask.
    """
    ask = ask or _session()
    for kind, (member, api, method, path, key) in _POLICIES.items():
        for resource in of(state, kind):
            ours = {_binding(one) for one in of(state, member) if _is_on(one, str(resource.values.get(key)))}
            policy = ask(api, method, path.format(resource.values.get(key), project=project), {})
            for role, who, condition in sorted({*_bindings(policy)} - ours):
                if not who.startswith(_CONVENIENCE):
                    yield Addition(resource.name, _told(role, who, condition))
    yield from _on_project(state, project, ask)
    yield from _ways_in(state, project, ask)


def _on_project(state: list[Resource], project: str, ask: Ask) -> Iterator[Addition]:
    """Roles on the project of the stack's own accounts; those of others are not the stack's."""
    accounts = {f"serviceAccount:{each.values.get('email')}": each.name
                for each in of(state, "gcp:serviceaccount/account:Account")}  # fmt: skip
    ours = {_binding(each) for each in of(state, "gcp:projects/iAMMember:IAMMember")}
    policy = ask("cloudresourcemanager", "POST", f"v1/projects/{project}:getIamPolicy", {}) if accounts else None
    for role, who, condition in sorted({*_bindings(policy)} - ours):
        if who in accounts:
            yield Addition(accounts[who], _told(role, who, condition, " on the project"))


def _ways_in(state: list[Resource], project: str, ask: Ask) -> Iterator[Addition]:
    rules = {each.values.get("name") for each in of(state, "gcp:compute/firewall:Firewall")}
    for network in of(state, "gcp:compute/network:Network"):
        link = str(network.values.get("selfLink"))
        query = {"filter": f'network eq ".*/networks/{link.rpartition("/")[2]}"'}
        for rule in _listed(ask, f"compute/v1/projects/{project}/global/firewalls", query):
            own = str(rule.get("network", "")).rpartition("/")[2] == link.rpartition("/")[2]
            if own and rule["name"] not in rules:
                yield Addition(network.name, f"the firewall rule {rule['name']}")


def _listed(ask: Ask, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The items of a list of Compute Engine; a page that the filter leaves empty may have a next one."""
    token, seen = "", set[str]()
    while token not in seen:
        seen.add(token)
        page = ask("compute", "GET", path, {**query, **({"pageToken": token} if token else {})}) or {}
        yield from page.get("items", ())
        token = page.get("nextPageToken", "")


def _bindings(policy: dict[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    for binding in (policy or {}).get("bindings", ()):
        expression = str((binding.get("condition") or {}).get("expression", ""))
        yield from ((binding["role"], member, expression) for member in binding.get("members", ()))


def _binding(resource: Resource) -> tuple[str, str, str]:
    values = resource.values
    return (
        str(values.get("role")),
        str(values.get("member")),
        str((values.get("condition") or {}).get("expression", "")),
    )


def _is_on(binding: Resource, name: str) -> bool:
    """True if a binding is on a resource, which it names as `b/NAME`, `projects/P/topics/NAME` or `NAME`."""
    named = (binding.values.get(key) for key in ("bucket", "topic", "subscription", "serviceAccountId"))
    return any(str(each).rpartition("/")[2] == name.rpartition("/")[2] for each in named if each)


def _told(role: str, who: str, condition: str, where: str = "") -> str:
    return f"{role} for {who}{where}" + (" on a condition" if condition else "")


def _session() -> Ask:
    credentials, _ = google.auth.default(scopes=[_SCOPE])
    session = AuthorizedSession(credentials)

    def ask(api: str, method: str, path: str, query: dict[str, str]) -> dict[str, Any] | None:
        base = os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}") or f"https://{api}.googleapis.com/"
        answer = session.request(method, f"{base}{path}", params=query, timeout=_TIMEOUT_SECONDS)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()

    return ask
