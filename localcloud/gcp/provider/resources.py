"""Google's resources: the shared interpreter, with update masks, and ids that can be parsed back into words."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from localcloud.gcp import discovery
from localcloud.provider import resources
from localcloud.provider.convert import UNKNOWN
from localcloud.provider.resources import Props
from localcloud.provider.table import fill, lookup, references

FULL = re.compile(r"^projects/[\w.:-]+/[a-z]+/(?=projects/[\w.:-]+/)")


class GcpResource(resources.ProviderResource):
    def _context(self, inputs: Props, out: Props, resource_id: str) -> dict[str, Any]:
        context = super()._context(inputs, out, resource_id)
        if inputs.get("project"):
            context["project"] = inputs["project"]
        named = self.row.id.startswith("=")  # we name it if the id starts with "=", otherwise Google sets the last part
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
        """Send only changes. A removed field is listed in the mask, or sent as null where there is no mask."""
        method = discovery.method(service.partition(".")[0], f"{service}.{step['op']}")
        if method.spec["httpMethod"] == "PUT" or "*" in step["params"]["body"]:
            return
        changed, body = set(context["changed"]), params.get("body") or {}
        touched = [key for key, part in step["params"]["body"].items() if _roots(part) & changed]
        if method.spec["parameters"].get("updateMask") or discovery.inner_key(method):
            params["body"] = {key: body[key] for key in touched if key in body}
            params["mask"] = ",".join(touched)
        else:
            old = self._context(_without(context["old"], self.row.computed), context["prior"], context["id"])
            shape = self.row.kind.shape(service, step["op"])
            before = (fill(step["params"], shape, old, self.row.names) or {}).get("body") or {}
            params["body"] = {key: _cleared(before.get(key), body.get(key)) for key in touched}

    def _described(self, data: Props, context: dict[str, Any]) -> Props:
        """Move fields that Google nests deeper than the inputs do to their place, and translate its words."""
        found = super()._described(data, context)
        for ours, theirs in self.row.names.items():
            *above, last = ours.split(".")
            if "." in theirs and above:
                for part in _parts(found, above):
                    if (value := lookup(theirs, part)) is not None:
                        part[last] = value
                        part[theirs.partition(".")[0]].pop(theirs.rpartition(".")[2])
        for rule in found.get("lifecycleRules") or []:
            if (live := rule.get("condition", {}).get("withState")) is not None:
                rule["condition"]["withState"] = "LIVE" if live else "ARCHIVED"
        return found

    def read(
        self, resource_id: str, state: Props, inputs: Props, defaults: dict[str, str]
    ) -> tuple[Props, Props] | None:
        """Also check whether an object is still the uploaded one, by its checksum; its content is not read. Of a
        dashboard, only what the inputs have is compared.

        Sources: TF/storage/resource_storage_bucket_object.go (`detect_md5hash`),
        TF/monitoring/resource_monitoring_dashboard.go (`monitoringDashboardDiffSuppress`)
        """
        found = super().read(resource_id, state, inputs, defaults)
        if found and isinstance(asked := inputs.get("dashboardJson"), str):
            for side in found:
                side["dashboardJson"] = _within(asked, side["dashboardJson"])
        if found and isinstance(inputs.get("content"), str) and "md5hash" in found[0]:
            uploaded = base64.b64encode(hashlib.md5(inputs["content"].encode(), usedforsecurity=False).digest())
            if uploaded.decode() != found[0]["md5hash"]:
                found[0]["content"] = found[1]["content"] = "different hash"
        return found

    def same(self, key: str, wanted: Any, found: Any) -> bool:
        """A dashboard's text is compared in full: the provider ignores only what the answer has more."""
        return _within(wanted, found) == wanted if key == "dashboardJson" else super().same(key, wanted, found)

    def overlaid(self, outputs: Props, inputs: Props) -> Props:
        """The inputs as written, plus the fields that Google adds inside them."""
        whole = {**outputs, **{key: _over(outputs.get(key), value) for key, value in inputs.items()}}
        return self._filled(whole, outputs)

    def preview_update(self, old: Props, state: Props, inputs: Props) -> Props:
        """Include the parts of inputs that Google fills in: updates do not change them."""
        return self._filled(super().preview_update(old, state, inputs), state)

    def preview(self, inputs: Props) -> Props:
        """Include the parts of inputs that are unknown before creation."""
        return self._filled(super().preview(inputs), None)

    def _filled(self, found: Props, known: Props | None) -> Props:
        """Properties with the parts of `nested`, as known, or unknown; each item of a list has them."""
        for path in self.row.nested:
            root, _, part = path.partition(".")
            parts = found.get(root)
            before = UNKNOWN if known is None else known.get(root)
            if isinstance(parts, dict):
                found[root] = _with(parts, part, before)
            elif isinstance(parts, list):
                items = before if isinstance(before, list) else [before] * len(parts)
                found[root] = [_with(each, part, item) for each, item in zip(parts, items, strict=True)]
        return found


def _with(value: Props, part: str, known: Any) -> Props:
    """A value with a part that is known from another, or unknown; unchanged if the other has none."""
    if known == UNKNOWN:
        return {**value, part: UNKNOWN}
    return {part: known[part], **value} if isinstance(known, dict) and part in known else value


def _without(inputs: Props, computed: list[str]) -> Props:
    """Inputs without those that Google keeps when they are no longer given."""
    found = {key: dict(value) if isinstance(value, dict) else value for key, value in inputs.items()}
    for path in computed:
        root, _, part = path.partition(".")
        if not part:
            found.pop(root, None)
        elif isinstance(found.get(root), dict):
            found[root].pop(part, None)
    return found


def _cleared(before: Any, after: Any) -> Any:
    """The merge patch that turns `before` into `after`: null removes a field."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    return {key: _cleared(before.get(key), after.get(key)) for key in {**before, **after}}


def _parts(value: Any, path: list[str]) -> list[Props]:
    """The objects at a path, in every item of the lists along it."""
    if isinstance(value, list):
        return [part for item in value for part in _parts(item, path)]
    if not isinstance(value, dict):
        return []
    return _parts(value.get(path[0]), path[1:]) if path else [value]


def _roots(template: Any) -> set[str]:
    return {path.partition(".")[0] for path in references([template])}


def _given(value: Any) -> Any:
    """The value to send, without empty texts inside objects, as the Terraform provider does
    (`expirationPolicy: {ttl: ""}`), and with short names where full ones were given."""
    if isinstance(value, str):
        return FULL.sub("", value)
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item != ""}
    return [_given(item) for item in value] if isinstance(value, list) else value


def _completed(body: Props, sent: Props) -> Props:
    """A body with the values that the real provider sends in each part, given or not."""
    added = {key: {**sent[key], **part} for key, part in body.items() if key in sent and isinstance(part, dict)}
    return {**body, **added}


def _within(asked: str, answered: str) -> str:
    """The part of an answered document that was asked for; the text that was asked for if they agree."""
    part = _shared(json.loads(asked), json.loads(answered))
    return asked if part == json.loads(asked) else json.dumps(part)


def _shared(asked: Any, answered: Any) -> Any:
    if isinstance(asked, dict) and isinstance(answered, dict):
        return {key: _shared(asked[key], value) for key, value in answered.items() if key in asked}
    if isinstance(asked, list) and isinstance(answered, list) and len(asked) == len(answered):
        return [_shared(*pair) for pair in zip(asked, answered, strict=True)]
    return answered


def _over(found: Any, given: Any) -> Any:
    if isinstance(found, dict) and isinstance(given, dict):
        return {**found, **{key: _over(found.get(key), value) for key, value in given.items()}}
    return given


def _words(template: str, resource_id: str) -> dict[str, str]:
    """The words of an id, found with the template that it was made from."""
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
