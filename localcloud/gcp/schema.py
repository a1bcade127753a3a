"""Checks JSON values against the schemas of a discovery document."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from localcloud.gcp.wire import RestError

Spec = dict[str, Any]
LIMITS = {"int32": 2**31, "uint32": 2**32, "int64": 2**63, "uint64": 2**64}
OUTPUT_ONLY = re.compile(r"\W*(output[ _-]only)\b", re.IGNORECASE)
DURATION = re.compile(r"-?\d+(\.\d{1,9})?s")


def read_only(spec: Spec) -> bool:
    """Whether a field is output only: Google ignores it in a request (https://google.aip.dev/203)."""
    return bool(spec.get("readOnly") or OUTPUT_ONLY.match(spec.get("description", "")))


def required(spec: Spec, method: str, creates: bool) -> bool:
    """Whether the document requires the field in a request of this method."""
    if "annotations" in spec:
        return method in spec["annotations"].get("required", [])
    return creates and spec.get("description", "").startswith("Required.")


def check(document: Spec, name: str, value: Any, method: str, given: set[str]) -> dict[str, Any]:
    """The checked body of a request, without output-only fields.

    Args:
        name: The body's schema.
        method: The method's id: it decides which fields are required.
        given: Path parameters, which the body need not repeat.

    Raises:
        RestError: 400 that names the field.
    """
    return _Checker(document["schemas"], method).check({"$ref": name}, value, "", given)


class _Checker:
    def __init__(self, schemas: Spec, method: str) -> None:
        self._schemas, self._method = schemas, method
        self._creates = method.rpartition(".")[2] in ("create", "insert", "createAsync")

    def check(self, spec: Spec, value: Any, path: str, given: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
        """The checked value; None stays (in a patch it removes the field)."""
        spec = self._schemas[spec["$ref"]] if "$ref" in spec else spec
        kind = spec.get("type", "object")
        if value is None or kind == "any":
            return value
        if kind == "object":
            return self._object(spec, value, path, given)
        if kind == "array":
            if not isinstance(value, list):
                raise invalid(path, f"expected a list, got {value!r}")
            return [self.check(spec["items"], item, f"{path}[{index}]") for index, item in enumerate(value)]
        return scalar(spec, value, path)

    def _object(self, spec: Spec, value: Any, path: str, given: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise invalid(path, f"expected an object, got {value!r}")
        known = spec.get("properties", {})
        result = {}
        for key, item in value.items():
            at = f"{path}.{key}" if path else key
            if key in known:
                if not read_only(known[key]):
                    result[key] = self.check(known[key], item, at)
            elif "additionalProperties" in spec:
                result[key] = self.check(spec["additionalProperties"], item, at)
            elif spec.get("format") != "google.protobuf.Any":
                where = f" at '{path}'" if path else ""
                text = f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.'
                raise RestError(400, text, field=at)
        for key, part in known.items():
            if key not in value and key not in given and required(part, self._method, self._creates):
                raise RestError(400, f"Required field '{path}.{key}' is missing.".replace("'.", "'"), field=key)
        return result


def invalid(path: str, text: str) -> RestError:
    """The error of a value that does not fit."""
    return RestError(400, f"Invalid value at '{path}': {text}", field=path)


def scalar(spec: Spec, value: Any, path: str) -> Any:
    """A text, number or boolean, checked for its type, format, pattern and enum.

    Raises:
        RestError: 400 that names the field.
    """
    kind, form = spec["type"], spec.get("format", "")
    if form in LIMITS:  # both 5 and "5" are accepted (https://protobuf.dev/programming-guides/json)
        return _whole(kind, form, value, path)
    if kind == "string" and not isinstance(value, str):
        raise invalid(path, f"expected a text, got {value!r}")
    if kind == "boolean" and not isinstance(value, bool):
        raise invalid(path, f"expected a boolean, got {value!r}")
    if kind in ("number", "integer") and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise invalid(path, f"expected a number, got {value!r}")
    if "enum" in spec and value not in spec["enum"]:
        raise invalid(path, f"{value!r} is not one of {', '.join(spec['enum'])}")
    if kind != "string":
        return value
    text = str(value)
    if form == "google-duration" and not DURATION.fullmatch(text):
        raise invalid(path, f"{value!r} is no duration in seconds such as '3.5s'")
    if form in ("google-datetime", "date-time"):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise invalid(path, f"{value!r} is no time of RFC 3339") from None
    if "pattern" in spec and not re.fullmatch(spec["pattern"], text):
        raise invalid(path, f"{value!r} does not match {spec['pattern']}")
    return value


def _whole(kind: str, form: str, value: Any, path: str) -> Any:
    try:
        number = int(value)
        if isinstance(value, bool) or number != float(value):
            raise ValueError
    except (ValueError, TypeError):
        raise invalid(path, f"expected a whole number, got {value!r}") from None
    low = 0 if form.startswith("u") else -LIMITS[form]
    if not low <= number < LIMITS[form]:
        raise invalid(path, f"{value!r} is out of range")
    return str(number) if kind == "string" else number


def from_text(spec: Spec, text: str, name: str) -> Any:
    """A query parameter's text as its type."""
    if spec["type"] == "boolean":
        if text.lower() not in ("true", "false"):
            raise invalid(name, f"expected a boolean, got {text!r}")
        return text.lower() == "true"
    if spec["type"] == "number":
        try:
            return float(text)
        except ValueError:
            raise invalid(name, f"expected a number, got {text!r}") from None
    return scalar(spec, text, name)
