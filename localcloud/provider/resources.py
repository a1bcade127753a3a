"""Create, read, update and delete of one resource, as its row of the table defines them."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Protocol

import jmespath

from .convert import UNKNOWN, covers, from_api, tag_map
from .plan import Props, diff
from .table import Row, fill, lookup, references, text

WAIT_SECONDS = 1200.0  # the Terraform SDK's default time-out of an operation


class HalfMadeError(Exception):
    """A resource was created, but a later step failed. The engine must keep it, marked."""

    def __init__(self, resource_id: str, outputs: Props, inputs: Props, cause: Exception) -> None:
        super().__init__(str(cause))
        self.resource_id, self.outputs, self.inputs = resource_id, outputs, inputs


class CloudClient(Protocol):
    """How a provider calls its cloud after configuration."""

    region: str
    errors: tuple[type[Exception], ...]  # exceptions that a call raises

    def placed(self, this: Row) -> Props:
        """Return properties that a resource takes from the provider's settings unless it sets them itself."""
        ...

    def words(self, region: str) -> Props:
        """Return the values of `Kind.words`."""
        ...

    def call(self, service: str, operation: str, params: Props, region: str) -> Props:
        """Call an operation and return its whole answer, including every page of a list."""
        ...

    def gone(self, error: Exception) -> bool:
        """Whether an error says that something does not exist."""
        ...


class ProviderResource:
    """One resource of a type, through the clients of a provider."""

    def __init__(self, this: Row, clients: CloudClient, region: str | None = None) -> None:
        self.row = this
        self._clients = clients
        self._region = region or clients.region

    def create(self, inputs: Props, timeout: float) -> tuple[str, Props]:
        """Create the resource and return (id, outputs).

        Raises:
            HalfMadeError: The resource exists, but a later step failed.
        """
        context = self._context(inputs, {}, "")
        answer = self._call(self.row.create, context)
        found = text(self.row.id[1:], context) if self.row.id.startswith("=") else jmespath.search(self.row.id, answer)
        context |= {"id": found, "last": answer}
        seeds = {key: jmespath.search(path, answer) for key, path in self.row.seed.items()}
        context["out"] = seeds
        try:
            self._complete(context, timeout)
            outputs = self._outputs(context)
        except Exception as error:
            raise HalfMadeError(str(found), {**inputs, **seeds}, inputs, error) from error
        return str(found), self.overlaid({**self._clients.placed(self.row), **outputs}, inputs)

    def _complete(self, context: dict[str, Any], timeout: float, again: bool = False) -> None:
        """Run the steps that follow the creation. On a repeated run, what they remove may already be gone."""
        self._wait(context, timeout)
        for step in self.row.set + self.row.then:
            try:
                if self._given(step, context):
                    self._run(step, context, timeout)
            except self._clients.errors as error:
                if not (again and self._clients.gone(error)):
                    raise

    def update(self, resource_id: str, old: Props, state: Props, inputs: Props, timeout: float) -> Props:
        """Update the resource to new inputs and return its outputs.

        The engine calls this without a change if the creation was not completed; the missing steps then run.
        """
        context = self._context(inputs, state, resource_id)
        changed = {re.split(r"[.\[]", path)[0] for path in diff(self.row, old, inputs)}
        if not changed:
            self._complete(context, timeout, again=True)
        context |= {"old": old, "prior": state, "out": dict(state), "changed": {}, "added": {}, "removed": {}}
        for key in changed:
            before, after = old.get(key), inputs.get(key)
            context["changed"][key] = after
            if isinstance(before or {}, dict) and isinstance(after or {}, dict):
                before, after = before or {}, after or {}
                fresh = {name: value for name, value in after.items() if value != before.get(name)}
                context["changed"][key] = context["added"][key] = fresh
                context["removed"][key] = [name for name in before if name not in after]
            elif isinstance(before or [], list) and isinstance(after or [], list):
                context["added"][key] = [item for item in after or [] if item not in (before or [])]
                context["removed"][key] = [item for item in before or [] if item not in (after or [])]
        ran = False
        for step in self.row.update + self.row.set:
            own = set() if self.row.labels else {self.row.kind.tags[1]}
            ran = ran if step.get("follow") else bool((self._roots(step) - own) & changed)
            if ran:
                self._run(step, context, timeout)
        if self.row.kind.tags[1] in changed:
            for step in self.row.tags:
                self._run(step, context, timeout)
        stale = old.keys() - inputs.keys()
        context["out"] = {key: value for key, value in context["out"].items() if key not in stale}
        kept = {key: value for key, value in state.items() if key not in old}
        return self.overlaid({**kept, **self._outputs(context)}, inputs)

    def same(self, key: str, wanted: Any, found: Any) -> bool:
        """Whether the provider treats the cloud's answer as equal to the request."""
        return covers(wanted, found, is_set=True)

    def overlaid(self, outputs: Props, inputs: Props) -> Props:
        """Return the outputs, with the requested values in their own words."""
        return {**outputs, **inputs}

    def delete(self, resource_id: str, state: Props, timeout: float) -> None:
        """Delete the resource and wait until it is gone. It may already be gone."""
        context = self._context(state, state, resource_id)
        try:
            for step in self.row.delete:
                self._run(step, context, timeout)
        except self._clients.errors as error:
            if not self._clients.gone(error) or self._read(context) is not None:  # something else was not found
                raise
        if self.row.gone and self.row.gone.get("wait", True):
            self._until(lambda: self._read(context) is None, timeout, "to be deleted")

    def read(
        self, resource_id: str, state: Props, inputs: Props, defaults: dict[str, str]
    ) -> tuple[Props, Props] | None:
        """Return the current (outputs, inputs), or None if the resource is gone.

        Without inputs (an import), every known property that the cloud returns becomes an input. With inputs, only the
        given ones are compared, and the cloud's value is taken where they differ.
        """
        context = self._context({**state, **inputs}, state, resource_id)
        data = self._read(context)
        if data is None:
            return None
        found = self._described(data, context)
        imported = not inputs
        result = dict(inputs)
        known = set(self.row.properties) - self.row.kind.common - set(self.row.kind.tags)
        for key in known & set(found) if imported else known & set(found) & set(inputs):
            value = found[key]
            if imported:
                if value not in (None, "", [], {}):
                    result[key] = value
            elif not self.same(key, inputs[key], self._like(inputs[key], value)):
                result[key] = self._like(inputs[key], value)
        if imported:
            result = {**self.row.defaults, **result}
        elif self.row.kind.whole:
            for key in known & set(self.row.out) & set(inputs) - set(found):
                if not covers(inputs[key], None):
                    del result[key]
        if self.row.taggable:
            tags, every = self.row.kind.tags
            result[every] = found[every]
            own = {k: v for k, v in found[every].items() if defaults.get(k) != v or k in (inputs.get(tags) or {})}
            result[tags] = own
            if not own and tags not in inputs:
                del result[tags]
        state = {key: value for key, value in state.items() if key in result or key not in inputs}
        return self.overlaid({**state, **found}, result), result

    def preview(self, inputs: Props) -> Props:
        """Return the outputs of a resource that does not exist yet: the inputs, and unknowns."""
        names = [*self.row.out, *self.row.seed, *self.row.outputs]
        return {**{name: UNKNOWN for name in names if name not in self.row.properties}, **inputs}

    def preview_update(self, old: Props, state: Props, inputs: Props) -> Props:
        """Return the outputs after an update: the old ones, with unknowns for what this update changes."""
        outputs = {**{key: value for key, value in state.items() if key not in old}, **inputs}
        changed = {re.split(r"[.\[]", path)[0] for path in diff(self.row, old, inputs)}
        if changed - {*self.row.kind.tags, *self.row.own}:
            outputs |= dict.fromkeys(self.row.recomputed, UNKNOWN)
        return outputs

    def _context(self, inputs: Props, out: Props, resource_id: str) -> dict[str, Any]:
        words = {"id": resource_id, "out": out, "region": self._region, "changed": inputs, "added": inputs}
        return {**self._clients.words(self._region), **inputs, **words}

    def _call(self, step: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        service = step.get("service", self.row.service)
        shape = self.row.kind.shape(service, step["op"])
        params = fill(step.get("params", {}), shape, context, self.row.names) or {}
        return self._clients.call(service, step["op"], params, self._region)

    def _run(self, step: dict[str, Any], context: dict[str, Any], timeout: float) -> None:
        if "if" in step and not self._holds(step["if"], context):
            return
        paths = references(step.get("params", {}))
        lists = [path for path in paths if path.startswith(("added.", "removed."))]
        if lists and not any(lookup(path, context) for path in lists):
            return
        if "unset" in step and not any(context.get(root) for root in self._roots(step) - self._roots(step["unset"])):
            return self._run(step["unset"], context, timeout)
        for each in self._each(step, context):
            context["last"] = self._call(step, context | {"each": each})
            for key, path in step.get("store", {}).items():
                context["out"][key] = jmespath.search(path, context["last"])
        if step.get("wait"):
            self._wait(context, timeout, lenient=step["wait"] == "lenient")

    def _each(self, step: dict[str, Any], context: dict[str, Any]) -> list[Any]:
        if "each" not in step:
            return [None]
        if "of" in step["each"]:
            return lookup(step["each"]["of"].removeprefix("$"), context) or []
        answer = self._call(step["each"], context)
        items = jmespath.search(text(step["each"]["at"], context), answer) or []
        size = step.get("chunk")
        return [items[start : start + size] for start in range(0, len(items), size)] if size else items

    @staticmethod
    def _holds(condition: str, context: dict[str, Any]) -> bool:
        negated = condition.startswith("!")
        return bool(lookup(condition.lstrip("!$"), context)) != negated

    def _roots(self, step: dict[str, Any]) -> set[str]:
        """Return the inputs that a step takes."""
        roots = set()
        for path in references([step.get("params", {}), step.get("if", "").lstrip("!")]):
            root, _, rest = path.partition(".")
            roots.add(rest.partition(".")[0] if root in ("changed", "added", "removed", "old") else root)
        return roots & set(self.row.properties) - self.row.kind.common

    def _given(self, step: dict[str, Any], context: dict[str, Any]) -> bool:
        roots = self._roots(step)
        return not roots or any(context.get(root) not in (None, {}, []) for root in roots)

    def _read(self, context: dict[str, Any]) -> dict[str, Any] | None:
        """Merge the answers of the row's reads; None if the resource does not exist."""
        data: dict[str, Any] = {}
        for step in self.row.read:
            try:
                answer: Any = self._call(step, context | {"read": data})
            except self._clients.errors as error:
                if step.get("optional"):
                    continue
                if self._clients.gone(error):
                    return None
                raise
            if "at" in step:
                answer = jmespath.search(text(step["at"], context), answer)
            if not answer and not step.get("optional"):
                return None
            data |= {step["as"]: answer} if "as" in step else answer
        gone = self.row.gone or {}
        return None if "at" in gone and jmespath.search(gone["at"], data) in gone["is"] else data

    def _described(self, data: dict[str, Any], context: dict[str, Any]) -> Props:
        """Extract the properties from the data that was read."""
        names = {theirs: name.rpartition(".")[2] for name, theirs in self.row.names.items()}
        found: Props = {}
        for key, path in self.row.out.items():
            if path.startswith("="):
                found[key] = text(path[1:], context | {"read": data})
            elif path.startswith("!"):  # a document, which may already be parsed
                document = jmespath.search(path[1:], data)
                found[key] = json.dumps(document) if isinstance(document, dict) else document
            else:
                found[key] = from_api(jmespath.search(path, data), names, self.row.kind.capital)
        if self.row.taggable:
            found[self.row.kind.tags[1]] = tag_map(jmespath.search(self.row.tags_at, data))
        return {key: value for key, value in found.items() if value is not None}

    def _outputs(self, context: dict[str, Any]) -> Props:
        data = self._read(context)
        if data is None:
            raise RuntimeError(f"{self.row.token} {context['id']} was not found after it was written")
        return {**context["out"], **self._described(data, context)}

    @staticmethod
    def _like(wanted: Any, found: Any) -> Any:
        """Return the cloud's answer in the form of the input: JSON stays text, a list of one takes its form."""
        if isinstance(wanted, str) and isinstance(found, dict | list):
            return json.dumps(found)
        if isinstance(wanted, list) and isinstance(found, dict):
            return [found]
        if isinstance(wanted, dict) and isinstance(found, list) and len(found) == 1:
            return found[0]
        return found

    def _wait(self, context: dict[str, Any], timeout: float, lenient: bool = False) -> None:
        rule = self.row.wait
        if not rule:
            return

        def reached() -> bool:
            data = self._read(context) or {}
            state = jmespath.search(rule["at"], data)
            if state in rule.get("fail", []) and not lenient:
                reason = jmespath.search(rule.get("reason", "''"), data)
                raise RuntimeError(f"{self.row.token} {context['id']} became {state}: {reason}")
            return state in rule["done"] or (lenient and state in rule.get("fail", []))

        self._until(reached, timeout, f"to be {' or '.join(rule['done'])}")

    def _until(self, reached: Any, timeout: float, what: str) -> None:
        end = time.monotonic() + (timeout or WAIT_SECONDS)
        pause = 0.05
        while not reached():
            if time.monotonic() > end:
                seconds = timeout or WAIT_SECONDS
                raise RuntimeError(f"timeout while waiting for {self.row.token} {what} (timeout: {seconds:g} s)")
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
