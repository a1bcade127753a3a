"""Reads previews: our preview document, or the engine's own `pulumi preview --json`."""

import datetime
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from components.rooms import DEFAULT

VERSION = 1
"""Version of the preview document."""

# Source: https://pkg.go.dev/github.com/pulumi/pulumi/pkg/v3/resource/deploy, the constants of StepOp.
Op = Literal[
    "same", "create", "update", "delete", "replace", "create-replacement", "delete-replaced", "read",
    "read-replacement", "refresh", "discard", "discard-replaced", "remove-pending-replace", "import",
    "import-replacement", "diff",
]  # fmt: skip
# Source: https://pkg.go.dev/github.com/pulumi/pulumi/pkg/v3/display, PropertyDiff.
DiffKind = Literal["add", "add-replace", "delete", "delete-replace", "update", "update-replace"]


class DocumentError(Exception):
    """A file is not a reviewable preview; the text says which file, why, and what to do."""


class _Engine(BaseModel):
    """A part of the engine's output; unused keys are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class State(_Engine):
    """A resource before or after."""

    custom: bool = True
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    protect: bool = False
    retain_on_delete: bool = False
    property_dependencies: dict[str, list[str] | None] = {}

    @field_validator("inputs", "outputs", mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        """Values without the Terraform bridge's own record of the inputs that were defaults."""
        if isinstance(value, dict):
            return {key: cls._bare(each) for key, each in value.items() if key != "__defaults"}
        return [cls._bare(each) for each in value] if isinstance(value, list) else value


class PropertyDiff(_Engine):
    """How one property differs."""

    kind: DiffKind
    input_diff: bool = False


class Step(_Engine):
    """A step of the engine on one resource."""

    op: Op
    urn: str = Field(pattern=r"(?s)^urn:pulumi:[^:]+::[^:]+::.+::.+$")
    old_state: State | None = None
    new_state: State | None = None
    detailed_diff: dict[str, PropertyDiff] | None = None
    diff_reasons: list[str] = []
    replace_reasons: list[str] = []

    @field_validator("detailed_diff", "diff_reasons", "replace_reasons", mode="before")
    @classmethod
    def _own(cls, value: Any) -> Any:
        """Without the Terraform bridge's own record of time-outs and schema versions."""
        if isinstance(value, dict):
            return {path: each for path, each in value.items() if not path.startswith("__meta")}
        return [path for path in value if not path.startswith("__meta")] if isinstance(value, list) else value

    @property
    def type(self) -> str:
        """Such as `aws:s3/bucket:Bucket`."""
        return self.urn.split("::", 3)[2].rpartition("$")[2]

    @property
    def name(self) -> str:
        return self.urn.split("::", 3)[3]

    @property
    def before(self) -> State | None:
        """Its state before; unchanged state is written once."""
        return self.old_state or (self.new_state if self.op == "same" else None)

    @property
    def after(self) -> State | None:
        """Its state after; None if it is deleted."""
        return None if self.op == "delete" else self.new_state

    @property
    def stopped(self) -> bool:
        """True if protection stops the engine from replacing or deleting it, unless the program lifts it."""
        lifted = self.new_state is not None and not self.new_state.protect
        return self.old_state is not None and self.old_state.protect and not (self.op == "replace" and lifted)

    @property
    def old(self) -> dict[str, Any]:
        """The inputs before; empty if it did not exist."""
        return self.before.inputs if self.before else {}

    @property
    def new(self) -> dict[str, Any]:
        """The inputs after; empty if it is deleted."""
        return self.after.inputs if self.after else {}


class _Diagnostic(_Engine):
    message: str = ""
    severity: str = ""


class _Digest(_Engine):
    config: dict[str, str] = {}
    steps: list[Step] = []
    diagnostics: list[_Diagnostic] = []
    change_summary: dict[str, int] = {}


class Policy(_Engine):
    """A message of a policy pack rule."""

    rule: str
    level: str
    severity: str | None = None
    urn: str | None = None
    message: str


class WaiverEntry(_Engine):
    """A waiver of the stack file."""

    rule: str
    resource: str | None = None
    reason: str
    until: datetime.date


class SpotScore(_Engine):
    """The cloud's score of a Spot fleet's machines at the preview."""

    fleet: str
    told: str
    """The figure, as the cloud names it: `3 of 10`, `obtainability 0.2`."""
    low: bool
    at: datetime.datetime
    source: str


class Base(BaseModel):
    """The commit to compare with; its stack is brought up first, and the preview runs on it."""

    ref: str
    """As the caller named it."""
    commit: str
    has_stack: bool = True
    config: dict[str, Any] = {}
    """The stack file's `config` there, by full keys; empty where it is not known."""

    def __str__(self) -> str:
        return self.ref if self.commit.startswith(self.ref) else f"{self.ref} ({self.commit[:9]})"


class RemovedStack(BaseModel):
    """A stack whose file the change removes or renames."""

    resources: int | None = None
    """How many it has in its backend; None if that was not asked."""


class Preview(BaseModel):
    """The preview of one stack."""

    stack: str
    cloud: str
    region: str | None = None
    environment: str | None = None
    config: dict[str, Any] = {}
    """Of the stack file, without the project's name before the keys."""
    preview: _Digest | None = None
    policies: list[Policy] = []
    waivers: list[WaiverEntry] = []
    overrides: dict[str, dict[str, Any]] = {}
    not_judged: dict[str, list[str]] = {}
    """Paths of properties that localcloud left out, by the key of their override."""
    spot: list[SpotScore] = []
    errors: list[str] = []
    exit_code: int
    base: Base | None = None
    removed: RemovedStack | None = None

    @property
    def first(self) -> bool:
        """True if the stack has no resources yet, so that there is nothing to compare with."""
        return any(step.type == "pulumi:pulumi:Stack" and step.op == "create" for step in self.steps)

    @property
    def steps(self) -> list[Step]:
        return self.preview.steps if self.preview else []

    @property
    def unchanged(self) -> int | None:
        """How many unchanged resources are not among the steps; None if all are.

        The engine leaves them out without `--show-sames`, which `ops preview` passes.
        """
        if not self.preview:
            return None
        same = self.preview.change_summary.get("same", 0)
        shown = sum(step.op == "same" for step in self.steps)
        return None if shown >= same else same - shown

    @property
    def told(self) -> list[str]:
        """The engine's errors, without its closing lines."""
        diagnosed = [d.message for d in self.preview.diagnostics if d.severity == "error"] if self.preview else []
        lines = [message.removeprefix("error: ").strip() for message in [*self.errors, *diagnosed]]
        lines = [line for line in lines if line and line != "preview failed"]
        # The engine adds it to what the program has said itself.
        return [line for line in lines if not line.startswith("an unhandled error occurred: ")] or lines


def read(path: Path) -> Preview:
    """Read a preview from a file.

    Raises:
        DocumentError: It cannot be read, or is not a preview.
    """
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}.") from None


def parse(text: bytes | str, name: str) -> Preview:
    """Read a preview from text.

    Args:
        text: A preview document, or what `pulumi preview --json` printed.

    Raises:
        DocumentError: It is not a preview, or has an unknown version.
    """
    again = "Write it again: python -m ops preview --stack STACK --json FILE"
    if not text.strip():
        raise DocumentError(f"{name}: the file is empty. {again}")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise DocumentError(f"{name}: incomplete JSON ({error}). {again}") from None
    if not isinstance(content, dict) or not ("version" in content or "steps" in content or "diagnostics" in content):
        raise DocumentError(f"{name}: this is not a preview. {again}")
    if "version" not in content:
        content = _document(content, name)
    if content["version"] != VERSION:
        raise DocumentError(
            f"{name}: version is {content['version']!r}; this reads version {VERSION}. Review it with the release that "
            "wrote it, or preview it again with this one."
        )
    try:
        return Preview.model_validate(content)
    except ValidationError as error:
        raise DocumentError(f"{name}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """The first error, with its path."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    newer = " The preview may come from a newer engine: engines up to 3.259 are known." if place.endswith("op") else ""
    return f"{place} is {first['input']!r:.80}: {first['msg']}.{newer}"


def _document(digest: dict[str, Any], name: str) -> dict[str, Any]:
    """A preview document around the engine's own JSON, which lacks policies and the exit code."""
    config = digest.get("config") or {}
    steps = digest.get("steps") or []
    urn = next((step["urn"] for step in steps if isinstance(step, dict) and "urn" in step), None)
    if not isinstance(urn, str) or not isinstance(config, dict):
        raise DocumentError(f"{name}: steps has no resources, so this is not a preview of a stack.")
    cloud = config.get("tidemill:cloud", DEFAULT)
    errors = [d for d in digest.get("diagnostics") or [] if isinstance(d, dict) and d.get("severity") == "error"]
    return {
        "version": VERSION,
        "stack": urn.split(":")[2],
        "cloud": cloud,
        "region": config.get(f"{cloud}:region"),
        "environment": config.get("tidemill:environment"),
        "preview": digest,
        "waivers": _of_config(config, "waivers", []),
        "overrides": _of_config(config, "overrides", {}),
        "exit_code": 1 if errors else 0,
    }


def _of_config(config: dict[str, Any], key: str, otherwise: Any) -> Any:
    try:
        return json.loads(config[f"tidemill:{key}"])
    except (KeyError, TypeError, ValueError):
        return otherwise
