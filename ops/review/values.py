"""A stack's values for reviewers: short and without secrets."""

import hashlib
import json
import re
from typing import Any

UNKNOWN = "(known after up)"
HIDDEN = "[hidden]"
SECRET = "[secret]"

# Placeholders in a preview for values that are not known yet, by kind.
# Source: https://github.com/pulumi/pulumi/blob/v3.259.0/sdk/go/common/resource/plugin/rpc.go
_UNKNOWNS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
_WITHIN = re.compile("|".join(sorted(_UNKNOWNS)))
# Objects with this key are not data: its value tells what they are.
# Source: https://github.com/pulumi/pulumi/blob/v3.259.0/sdk/go/common/resource/sig/sig.go
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

# A key with such a name holds a credential, even if the engine does not know that.
_NAMED = re.compile(
    r"(^|[^a-z])(pass(word|wd|phrase)?|pwd|secrets?|tokens?|credentials?|auth(orization)?|private[^a-z]?key|"
    r"api[^a-z]?key|access[^a-z]?key|signing[^a-z]?key)($|[^a-z])"
)
# Names that match but hold no credential.
_HARMLESS = re.compile(r"^(http[^a-z]?tokens?|secret[^a-z]?id|next[^a-z]?token)$")
# Boot scripts and environments, which may hold anything.
_PROGRAMS = frozenset({"userdata", "userdatabase64", "user-data", "startup-script", "metadatastartupscript"})
# Credentials by their format.
# Source: https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns
_LOOKS = re.compile(
    r"(AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z0-9]{30,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+"
)
# Where a secret is kept is not secret.
_PLACE = re.compile(
    r"^(arn:[a-z-]+:(secretsmanager|ssm):[a-z0-9-]*:\d*:\S+|projects/[\w.:-]+/secrets/[\w-]+(/versions/\w+)?)$"
)


def is_unknown(value: Any) -> bool:
    """True if the engine cannot know a value before `up`."""
    return isinstance(value, str) and value in _UNKNOWNS


def objects(value: Any) -> list[dict[str, Any]]:
    """The maps in a list; none for anything else, such as an unknown value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """A list as texts; a single value as a list of one, unknown values by that name, and no value as an empty list."""
    values = value if isinstance(value, list) else [] if value in (None, "", {}) else [value]
    return [UNKNOWN if is_unknown(each) else str(each) for each in values]


def number(value: Any) -> float | None:
    """A number of days, or of seconds as in `86400s`; None for no limit or an unknown value."""
    if isinstance(value, bool) or value is None or is_unknown(value):
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)s?", str(value))
    return float(match[1]) if match else None


def clean(value: Any, key: str = "") -> Any:
    """A value without secrets and with unknowns named; maps and lists keep their shape."""
    if is_unknown(value):
        return UNKNOWN
    if isinstance(value, dict):
        return _special(value) if _SIGNATURE in value else _mapping(value, key)
    if isinstance(value, list):
        return [clean(each, key) for each in value]
    if isinstance(value, str):
        return _text(value, key)
    return HIDDEN if _is_named(key) and value is not None and not isinstance(value, bool) else value


def hides(value: Any, path: tuple[str | int, ...]) -> bool:
    """True if the value at a path is a secret by the names along the path; looks into documents in strings."""
    for part in path:
        value = document(value) if isinstance(value, str) else value
        if isinstance(part, str) and _is_named(part):
            return True
        if isinstance(value, dict):
            named = value.get("name") or value.get("key")
            if part == "value" and isinstance(named, str) and _is_named(named):
                return True
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            value = None
    return False


def short(value: Any, limit: int = 200) -> str:
    """A clean value in a line of at most `limit` characters."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 20]}… ({len(text)} characters)"


def document(value: Any) -> dict[str, Any] | list[Any] | None:
    """The map or list that a string holds as JSON; None if it holds none."""
    if not isinstance(value, str) or value[:1] not in "{[" or not value:
        return None
    try:
        content = json.loads(value)
    except ValueError:
        return None
    return content if isinstance(content, dict | list) else None


def _mapping(value: dict[str, Any], key: str) -> dict[str, Any]:
    named = value.get("name") or value.get("key")
    if isinstance(named, str) and "value" in value and _is_named(named):
        # A variable of an environment: {name: HF_TOKEN, value: …}.
        return {**{k: clean(v, k) for k, v in value.items()}, "value": clean(value["value"], named)}
    return {name: clean(each, name if not _is_named(key) else key) for name, each in value.items()}


def _special(value: dict[str, Any]) -> Any:
    if value[_SIGNATURE] == _SECRET:
        return SECRET
    if value[_SIGNATURE] == _OUTPUT:
        return SECRET if value.get("secret") else clean(value.get("value", UNKNOWN))
    if value[_SIGNATURE] == _REFERENCE:
        return clean(value.get("urn", UNKNOWN))
    return f"(file, sha256 {str(value.get('hash', ''))[:12]})"


def _text(value: str, key: str) -> str:
    if value == SECRET or _PLACE.match(value):
        return value
    if key.lower() in _PROGRAMS:
        return f"(program, {len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]})"
    if _is_named(key) and value:
        return HIDDEN
    held = document(value)
    if held is not None:
        return json.dumps(clean(held), ensure_ascii=False)
    return _LOOKS.sub(HIDDEN, _WITHIN.sub(UNKNOWN, value))


def _is_named(key: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    return bool(_NAMED.search(words)) and not _HARMLESS.match(words)
