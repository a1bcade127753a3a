"""Guards of the stacks: the policies' strictness, waivers, workflows, CI's identities, and the tools themselves.

No preview shows such a change: it alters no resource, only what the next change may do unseen.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from components.config import ConfigError
from components.config.load import read_text
from components.rooms import CLOUDS
from ops.ci.precedence import taken_first
from ops.clouds import facts
from ops.review.models import Finding, Severity
from tidemill import services

Read = Callable[[str, bool], str | None]
"""The text of a path, before (True) or after; None where it does not exist."""

_HOME = "the home of CI's identities and of the state changes"
_COUNTS = "how the policies count machines and money changes: what they refused may pass"
_RUNS = "what runs with CI's logins changes"
_PACKAGES = "the packages that run with CI's logins change"
_TOOLS = "what reviews, plans and deploys changes"
_OWN_PRICES = "tidemill/prices/data/own.json"
_RECORDS = [path for cloud in CLOUDS for path in (f"clouds/{cloud}", f"services/{services.of_cloud(cloud).name}")]
"""Packages of `tidemill` whose records policies ask."""
LOCKS = ("requirements.txt", *(f"requirements-{cloud}.txt" for cloud in CLOUDS))
GUARDS: tuple[tuple[str, Severity, str], ...] = (
    ("policy/", "high", "the policies change: what they refused may pass"),
    (".github/", "high", "what runs with CI's logins, or who must approve, changes"),
    *((each, "high", _RUNS) for each in (".gitlab-ci.yml", ".gitlab/", "examples/gitlab/")),
    *((each, "high", "who must approve changes") for each in ("CODEOWNERS", "docs/CODEOWNERS")),
    ("bootstrap/", "high", _HOME),
    *((f"components/{cloud}/ci", "high", "what CI's identities may do changes") for cloud in CLOUDS),
    *((f"components/{cloud}/bootstrap.py", "high", _HOME) for cloud in CLOUDS),
    ("components/ci.py", "high", "what CI's identities may do changes"),
    ("shared/", "high", "the network or registry of every team that shares it changes: preview that stack by itself"),
    ("Pulumi.yaml", "medium", "the project of every stack changes"),
    # Pulumi, make and uv would read these beside, or in place of, the files that are here.
    *((each, "high", "another file in place of Pulumi.yaml") for each in ("Pulumi.json", "Pulumi.yml")),
    *((each, "high", _RUNS) for each in ("GNUmakefile", "makefile", "uv.toml", ".venv/")),
    ("build/", "high", "what commands keep there, they believe: a refresh of prices takes its pages for a cloud's"),
    ("components/services/pubsub/reconciler_function/requirements.txt", "medium", _PACKAGES),
    ("ops/", "medium", _TOOLS),
    # The commands load these, and a change without a login is previewed on localcloud.
    ("localcloud/", "medium", _TOOLS),
    *((f"tidemill/{each}", "medium", _TOOLS) for each in ("advice/", "figures.py", "folders.py", "removal.py")),
    ("components/rooms.py", "medium", _TOOLS),
    *((each, "medium", _PACKAGES) for each in LOCKS),
    ("pyproject.toml", "medium", _PACKAGES),
    ("Makefile", "medium", "what CI runs before it logs in changes"),
    ("tidemill/mountable.py", "high", "which folders of a machine jobs may mount changes"),
    ("tidemill/capacity.py", "high", _COUNTS),
    ("tidemill/planned_fleet.py", "high", _COUNTS),
    ("tidemill/__init__.py", "high", _COUNTS),
    ("tidemill/rooms.py", "high", _COUNTS),
    ("tidemill/errors.py", "medium", _COUNTS),
    *((f"tidemill/{each}/__init__.py", "high", _COUNTS) for each in ("clouds", "services", *_RECORDS)),
    # Their data is refreshed now and then, but for prices that a person sets.
    (_OWN_PRICES, "high", "prices that were set by hand change: what a cap refused may pass"),
    ("tidemill/machines/data/", "medium", "the machines that the policies count by change"),
    ("tidemill/prices/data/", "medium", "the prices that the policies count by change"),
    ("tidemill/machines/", "high", _COUNTS),
    ("tidemill/prices/", "high", _COUNTS),
)
"""Beginnings of paths, how bad a change there is by itself, and its title. CODEOWNERS names the same folders.

The policy pack imports what is listed of `tidemill`.
"""

_ENVIRONMENT = re.compile(r"policy/environments/([^/]+)\.json")
_STACK = re.compile(r"(?:stacks|shared)/Pulumi\.([^/]+)\.yaml")
_PINNED = re.compile(r"(uses: [\w./-]+)@\S+( #.*)?")
_PROVIDER = re.compile(r"^(pulumi-aws|pulumi-gcp)==(\d+)", re.MULTILINE)
_PROVIDERS = re.compile(rf"({'|'.join(CLOUDS)}):(?!region$|defaultTags|defaultLabels)")
"""Settings of the clouds' providers, without those whose effects a preview shows."""
_SECRETS = ("secretsprovider", "encryptedkey", "encryptionsalt")
_TRIGGERS = ("pull_request_target:", "workflow_run:")
"""They run with the tokens of the base, also for a fork.

Source: https://docs.github.com/actions/reference/security/secure-use#mitigating-the-risks-of-untrusted-code-checkout
"""
_LOOSE = re.compile(r"uses: ([\w-]+/[\w./-]+@(?:v\d|main|master)\S*)")
_PROJECT = re.compile(r"^name: *(\S+)", re.MULTILINE)
_PACKAGE = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s\\;]+)", re.MULTILINE)
_BARE = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?==[^\n]*\n(?! *--hash=)", re.MULTILINE)
_INDEX = re.compile(r"^--(?:extra-)?index-url\s+(\S+)", re.MULTILINE)
_ENGINE = ("pulumi", *(f"pulumi-{cloud}" for cloud in CLOUDS))
_LEVELS = ("disabled", "advisory", "mandatory", "remediate")


def findings(changed: Iterable[str], read: Read) -> Iterator[Finding]:
    """Findings of the kind `guardrail` about a change of the project's files.

    Args:
        changed: The paths that differ.
    """
    for path in sorted(changed):
        guard = next((each for each in GUARDS if path.startswith(each[0])), None)
        stack = _STACK.fullmatch(path)
        if first := taken_first(path, read):
            yield _finding(first[0], path, first[1])
            continue
        if not (guard or stack) or (old := read(path, True)) == (new := read(path, False)):
            continue
        if match := _ENVIRONMENT.fullmatch(path):
            yield from _environment(path, match[1], read)
        elif guard:
            yield _guarded(path, old, new, *guard[1:])
        elif stack:
            yield from _waivers(path, old, new)
            yield from _elsewhere(path, old, new)


def _guarded(path: str, old: str | None, new: str | None, severity: Severity, title: str) -> Finding:
    if path.startswith(".git") and path.endswith("CODEOWNERS") and new is not None and old is None:
        return _finding("low", path, "owners are named for the first time")
    if (worse := _worse(path, old or "", new or "")) is not None:
        return worse
    if path.startswith(".github/") and old and new and _PINNED.sub(r"\1", old) == _PINNED.sub(r"\1", new):
        return _finding("medium", path, "actions change their versions", *_differing(old, new))
    bumped = sorted({*_PROVIDER.findall(new or "")} - {*_PROVIDER.findall(old or "")})
    if path in LOCKS and old and bumped:
        title = "another major version of a provider may replace resources: preview on your login"
        return _finding("high", path, title, *(f"{name} {major}" for name, major in bumped))
    what = "is removed" if new is None else "is new" if old is None else "changes"
    return _finding(
        severity, path, f"{title} (a file {what})", *(_differing(old or "", new or "") if path == _OWN_PRICES else ())
    )


def _worse(path: str, old: str, new: str) -> Finding | None:
    """The finding about a change whose effect is known beyond the file's path; None if none is."""
    if path == "Pulumi.yaml" and _PROJECT.findall(old) != _PROJECT.findall(new):
        title = "the project gets another name: every stack is made anew, and what exists is orphaned"
        return _finding("critical", path, title)
    if path.startswith(".github/"):
        if begun := [each for each in _TRIGGERS if each in new and each not in old]:
            return _finding("critical", path, "a pull request's code may run with the repository's tokens", *begun)
        if loose := sorted({*_LOOSE.findall(new)} - {*_LOOSE.findall(old)}):
            return _finding("high", path, "an action is no longer pinned to a commit", *loose)
    if path == "Makefile" and old.count("--require-hashes") > new.count("--require-hashes"):
        return _finding("high", path, "packages are installed without their hashes, also for CI's logins")
    return _locked(path, old, new) if path in LOCKS and old and new else None


def _locked(path: str, old: str, new: str) -> Finding | None:
    """The finding about a change of the lock beyond newer versions; None if there is none."""
    before, after = (dict(_PACKAGE.findall(text)) for text in (old, new))
    if indexes := sorted({*_INDEX.findall(new)} - {*_INDEX.findall(old)}):
        return _finding("high", path, "packages may come from another index", *indexes)
    if bare := sorted({*_BARE.findall(new)} - {*_BARE.findall(old)}):
        return _finding("high", path, f"locked without hashes: {', '.join(bare)}")
    if added := sorted(after.keys() - before.keys()):
        return _finding("high", path, f"new packages run with CI's logins: {', '.join(added)}")
    older = [name for name in _ENGINE if _numbers(after.get(name, "")) < _numbers(before.get(name, ""))]
    if older:
        lines = (f"{name} {after.get(name, 'none')}, was {before[name]}" for name in older)
        return _finding("high", path, "an older provider may not read the state of a newer one", *lines)
    return None


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)]


def _environment(path: str, environment: str, read: Read) -> Iterator[Finding]:
    """How strict the policies are in an environment; one without a file gets default.json."""
    default = "policy/environments/default.json"
    sides = []
    for before in (True, False):
        text = read(path, before)
        try:
            sides.append(dict(json.loads((text if text is not None else read(default, before)) or "{}")))
        except (TypeError, ValueError):
            yield _finding("high", path, f"{environment}: the policies' levels cannot be read")
            return
    old, new = ({rule: _parts(each) for rule, each in side.items()} for side in sides)
    for rule in sorted({*old, *new}):
        text = read(f"policy/rules/{rule.replace('-', '_')}.py", True) or ""
        own = {"enforcementLevel": "advisory" if re.search(r"level=(rule\.)?ADVISORY", text) else "mandatory"}
        for looser, change in _settings({**own, **old.get(rule, {})}, {**own, **new.get(rule, {})}):
            worst = "CRITICAL" in text and change.startswith("the level")
            severity: Severity = "low" if not looser else "critical" if worst else "high"
            title = f"{rule} is {'less strict' if looser else 'stricter'} in {environment}"
            yield _finding(severity, path, title, change)


def _settings(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Changed settings of a rule: True if more passes, and the change in words."""
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before != after:
            shown = ["its default" if value is None else json.dumps(value).strip('"') for value in (before, after)]
            what = "the level" if key == "enforcementLevel" else key
            yield _looser(key, before, after), f"{what}: {shown[0]} to {shown[1]}"


def _looser(key: str, old: Any, new: Any) -> bool:
    """True if a setting lets more pass; one whose meaning is not known does."""
    if key == "enforcementLevel" and old in _LEVELS and new in _LEVELS:
        return _LEVELS.index(new) < _LEVELS.index(old)
    if key in ("required", "allowed"):
        try:
            return _fewer_tags(key, old, new)
        except (AttributeError, TypeError, ValueError):  # no list of keys, or no values of some
            return True
    if key == "unknownUsdPerCpuHour":
        # 0, the default, refuses machines without a price; a lower price lets more of them pass.
        old, new = (math.inf if each in (None, 0) else each for each in (old, new))
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (old, new))
    # Nothing is more than NaN, nor less.
    if numbers and key.startswith("max"):
        return not new <= old
    if numbers and key.startswith(("min", "days", "unknown")):
        return not new >= old
    return not (new is True and old in (None, False))


def _fewer_tags(key: str, old: Any, new: Any) -> bool:
    """True if fewer tags are required, or more values of one are allowed."""
    if key == "required":
        return not _required(old) <= _required(new)
    before, after = dict(old or {}), dict(new or {})
    return any(name not in after or not set(after[name]) <= set(values) for name, values in before.items())


def _required(keys: list[str] | None) -> set[str]:
    """Keys of tags or labels. Without a list, Tidemill's own are required."""
    own = ["tidemill:team", "tidemill:environment"]
    return {key.replace("tidemill-", "tidemill:") for key in (own if keys is None else keys)}


def _parts(setting: Any) -> dict[str, Any]:
    return setting if isinstance(setting, dict) else {"enforcementLevel": setting}


def _waivers(path: str, old: str | None, new: str | None) -> Iterator[Finding]:
    """Waivers that a stack file adds or prolongs."""
    before, after = _waived(old), _waived(new)
    for (rule, resource), waiver in sorted(after.items()):
        was = before.get((rule, resource))
        until = str(waiver.get("until"))
        if was is None or until > str(was.get("until")):
            verb = "waives" if was is None else "prolongs the waiver of"
            about = f" for {resource}" if resource else " for the whole stack"
            yield _finding("high", path, f"{verb} {rule}{about} until {until}", str(waiver.get("reason", "")))


def _waived(text: str | None) -> dict[tuple[str, str], dict[str, Any]]:
    try:
        waivers = _config(text).get("tidemill:waivers") or []
        return {(str(each.get("rule")), str(each.get("resource") or "")): each for each in waivers}
    except (AttributeError, TypeError):
        return {}


def _elsewhere(path: str, old: str | None, new: str | None) -> Iterator[Finding]:
    """Settings of the provider of a stack, which stays, that another account, project or login follows from."""
    before, after = _config(old), _config(new)
    keys = [f"{cloud}:{name}" for cloud in CLOUDS for name in facts(cloud).ELSEWHERE] if before and after else []
    # `aws:assumeRoles[0].roleArn` is a part of one. No values, which may be credentials.
    changed = [key for key in keys if _under(before, key) != _under(after, key)]
    differing = [str(key) for key in {*before, *after} if before and after and before.get(key) != after.get(key)]
    others = sorted(key for key in differing if _PROVIDERS.match(key) and not any(_under({key: 0}, k) for k in keys))
    if others:
        yield _finding("high", path, f"the provider gets other settings: {', '.join(others)}")
    kept = [key for key in _SECRETS if _top(old).get(key) not in (None, _top(new).get(key))] if old and new else []
    if kept:
        title = f"the stack's secrets are encrypted with something else: {', '.join(kept)}"
        yield _finding("high", path, title, "`up` cannot read what the old key encrypted.")
    if changed:
        title = f"the stack may go to another account, project or login: {', '.join(changed)}"
        yield _finding("high", path, title, "What it has made so far stays where it is, and nothing may manage it.")


@lru_cache(maxsize=4)
def _top(text: str | None) -> dict[str, Any]:
    try:
        return read_text(text or "", "")
    except ConfigError:
        return {}


def _under(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if re.match(rf"{re.escape(key)}($|[.\[])", str(name))}


def _config(text: str | None) -> dict[str, Any]:
    """The `config:` of a stack file; empty where the stack's own preview, or `ops check`, tells what is wrong."""
    config = _top(text).get("config")
    return config if isinstance(config, dict) else {}


def _differing(old: str, new: str) -> tuple[str, ...]:
    before = {line.strip() for line in old.splitlines()}
    return tuple(dict.fromkeys(line.strip() for line in new.splitlines() if line.strip() not in before))


def _finding(severity: Severity, path: str, title: str, *details: str) -> Finding:
    return Finding(severity, "guardrail", path, "", title, tuple(line for line in details if line))
