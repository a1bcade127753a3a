"""Google's resources: the shared interpreter, with update masks, and ids that give their words back."""

from __future__ import annotations

import re
from typing import Any

from localcloud.gcp import discovery
from localcloud.provider import resources
from localcloud.provider.convert import UNKNOWN
from localcloud.provider.resources import Props
from localcloud.provider.table import fill, references

FULL = re.compile(r"^projects/[\w.:-]+/[a-z]+/(?=projects/[\w.:-]+/)")


class Resource(resources.Resource):
    """One resource of a type."""

    def _context(self, inputs: Props, out: Props, resource_id: str) -> dict[str, Any]:
        context = super()._context(inputs, out, resource_id)
        if inputs.get("project"):
            context["project"] = inputs["project"]
        named = self.row.id.startswith("=")  # by us, else by Google: in the place of the last part
        words = self.row.id[1:] if named else f"{self.row.at.rpartition('/')[0]}/{{name}}"
        return context if inputs else {**context, **_words(words, resource_id)}

    def _call(self, step: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        service = step.get("service", self.row.service)
        shape = self.row.kind.shape(service, step["op"])
        params = fill(step.get("params", {}), shape, context, self.row.names) or {}
        if "body" in params:
            params["body"] = _given(_completed(params["body"], self.row.sent))
        if step is self.row.create and self.row.first:
            params["body"] = {**self.row.first, **params["body"]}
        if step["op"] in ("patch", "update"):
            self._mask(step, service, params, context)
        return self._clients.call(service, step["op"], params, self._region)

    def _mask(self, step: dict[str, Any], service: str, params: Props, context: dict[str, Any]) -> None:
        """Send what changed and nothing else; what was taken away is in the mask, or null where there is none."""
        method = discovery.method(service.partition(".")[0], f"{service}.{step['op']}")
        if method.spec["httpMethod"] == "PUT":
            return
        changed, body = set(context["changed"]), params.get("body") or {}
        touched = [key for key, part in step["params"]["body"].items() if _roots(part) & changed]
        if method.spec["parameters"].get("updateMask") or discovery.inner_key(method):
            params["body"] = {key: body[key] for key in touched if key in body}
            params["mask"] = ",".join(touched)
        else:
            params["body"] = {key: body.get(key) for key in touched}

    def overlaid(self, outputs: Props, inputs: Props) -> Props:
        """The inputs in their own words, with what Google adds inside of them."""
        return {**outputs, **{key: _over(outputs.get(key), value) for key, value in inputs.items()}}

    def preview_update(self, old: Props, state: Props, inputs: Props) -> Props:
        """With the parts of inputs that Google fills in as they are: no update changes them."""
        found = super().preview_update(old, state, inputs)
        for path in self.row.nested:
            root, _, part = path.partition(".")
            if isinstance(found.get(root), dict) and part in (state.get(root) or {}):
                found[root] = {part: state[root][part], **found[root]}
        return found

    def preview(self, inputs: Props) -> Props:
        """With the parts of inputs that are not known before they are made."""
        found = super().preview(inputs)
        for path in self.row.nested:
            root, _, part = path.partition(".")
            if isinstance(found.get(root), dict):
                found[root] = {**found[root], part: UNKNOWN}
        return found


def _roots(template: Any) -> set[str]:
    return {path.partition(".")[0] for path in references([template])}


def _given(value: Any) -> Any:
    """What is sent: no empty texts inside of objects, as in the Terraform provider (`expirationPolicy: {ttl: ""}`), and
    names that were given in full where a short one would do."""
    if isinstance(value, str):
        return FULL.sub("", value)
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item != ""}
    return [_given(item) for item in value] if isinstance(value, list) else value


def _completed(body: Props, sent: Props) -> Props:
    """A body with what the real provider sends in each of its parts, whether it is given or not."""
    added = {key: {**sent[key], **part} for key, part in body.items() if key in sent and isinstance(part, dict)}
    return {**body, **added}


def _over(found: Any, given: Any) -> Any:
    if isinstance(found, dict) and isinstance(given, dict):
        return {**found, **{key: _over(found.get(key), value) for key, value in given.items()}}
    return given


def _words(template: str, resource_id: str) -> dict[str, str]:
    """The words of an id, by the text that it was put together from."""
    seen: set[str] = set()

    def group(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>.+?)"

    escaped = re.sub(r"\\\{(\w+)\\\}", group, re.escape(template))
    match = re.fullmatch(escaped, resource_id)
    return match.groupdict() if match else {}
