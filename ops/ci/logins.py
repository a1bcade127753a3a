"""CI's logins: which variable of the repository names a stack's account or project, and whether it is the right one."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from components.rooms import CLOUDS
from ops.clouds import facts
from tidemill.errors import nearest

HINT = "set it to the output `ci` of the bootstrap stack (docs/ci.md)"
_PREFIXES = ("TIDEMILL_STACK_", *(f"TIDEMILL_{cloud.upper()}_" for cloud in CLOUDS))


def variables() -> dict[str, Any]:
    """The repository's variables with logins: the JSON object CI_VARIABLES, or the environment's where a host gives
    each variable to jobs by its name, as GitLab does.

    Raises:
        click.UsageError: CI_VARIABLES is not a JSON object.
    """
    given = os.environ.get("CI_VARIABLES")
    hint = "it holds the repository's variables, by their names"
    every = json_object("CI_VARIABLES", given, hint) if given else dict(os.environ)
    return {name: text for name, text in every.items() if name.startswith(_PREFIXES)}


def names(stack: str, cloud: str, environment: str | None) -> tuple[str, ...]:
    """The variables that may hold a stack's login; the first that is set counts.

    Args:
        environment: None for a stack of another project, whose login no environment has.
    """
    own = _name("STACK", stack)
    return (own,) if environment is None else (own, _name(cloud, environment))


def _name(*parts: str) -> str:
    return re.sub(r"\W", "_", "_".join(("TIDEMILL", *parts))).upper()


def refuse_shared(owners: Iterable[tuple[str, str]], given: Mapping[str, Any]) -> None:
    """Refuse a stack's own variable that is another stack's too: `bootstrap-prod` would deploy with the login of
    `bootstrap/prod`.

    Args:
        owners: Each stack with the name of its own variable.

    Raises:
        click.UsageError: Two stacks have one variable, and it is set.
    """
    first: dict[str, str] = {}
    for stack, name in owners:
        if given.get(name) and (other := first.setdefault(name, stack)) != stack:
            raise click.UsageError(f"{name} would be the login of {other} and of {stack}. Give one another name.")


def read(name: str, text: str, environment: str | None) -> dict[str, str]:
    """A variable's login: ``backend_url``, ``provider`` and the identities ``preview`` and ``deploy``.

    Args:
        environment: Whose deploys; None for a stack that CI does not deploy.

    Raises:
        click.UsageError: It lacks one of them.
    """
    given = json_object(name, text)
    try:
        deploys = given["deploy"].get(environment, "")
        login = {
            "backend_url": given["backend_url"],
            "provider": given.get("provider", ""),
            "preview": given["preview"],
        }
    except (KeyError, AttributeError):
        raise click.UsageError(f"{name}: backend_url, preview and deploy are required; {HINT}.") from None
    if environment is not None and not deploys:
        raise click.UsageError(f"{name}: deploy has no {environment!r}; {HINT}.")
    return {**login, "deploy": deploys}


def refuse_elsewhere(stack: str, cloud: str, name: str, login: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Refuse a login to another account or project than the stack's file names.

    Args:
        settings: The `config:` of the file.

    Raises:
        click.UsageError: The account of an identity is not the stack's.
    """
    home = facts(cloud)
    for identity in filter(None, (login["preview"], login["deploy"])):
        if wrong := home.wrong_home(identity, settings):
            (own, *_) = names(stack, cloud, None)
            raise click.UsageError(
                f"{stack}: {name} is a login to {wrong}. Set {own} to the output `ci` of the bootstrap stack of its "
                "own account or project, or correct the key (docs/ci.md)."
            )


def homes() -> list[dict[str, str]]:
    """Each backend of the variables once, with the reader's login to it.

    Raises:
        click.UsageError: A variable lacks a part.
    """
    found: dict[str, dict[str, str]] = {}
    for name, text in sorted(variables().items()):
        if not text:
            continue
        login = json_object(name, text)
        url = login.get("backend_url")
        if not isinstance(url, str) or "preview" not in login:
            raise click.UsageError(f"{name}: backend_url and preview are required (docs/ci.md).")
        found.setdefault(url, _home(name, url, login))
    return list(found.values())


def _home(name: str, url: str, login: Mapping[str, Any]) -> dict[str, str]:
    # The state may be in another kind of backend: then only the variable's name tells.
    named = name.split("_")[1].lower()
    cloud = next((cloud for cloud in CLOUDS if url.startswith(facts(cloud).BACKEND)), named)
    if cloud not in CLOUDS:
        raise click.UsageError(f"{name}: backend_url {url} is on no cloud; {HINT}.")
    region = parse_qs(urlsplit(url).query).get("region", [""])[0]
    home = {"home": name, "cloud": cloud, "region": region, "backend_url": url}
    return {**home, "provider": login.get("provider", ""), "preview": login["preview"]}


def unread(given: Iterable[str], known: Collection[str]) -> list[str]:
    """A sentence for each variable that no stack reads, such as one whose name is misspelt.

    Args:
        known: The variables of all stacks.
    """
    return [f"{name}: no stack reads this variable.{nearest(name, known)}" for name in given if name not in known]


def json_object(name: str, text: str, hint: str = HINT) -> dict[str, Any]:
    """The JSON object that a variable holds.

    Args:
        hint: What it should hold.

    Raises:
        click.UsageError: It holds none.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"{name} is not valid JSON: {error}; {hint}.") from None
    if not isinstance(content, dict):
        raise click.UsageError(f"{name} is {content!r:.40}, not a JSON object; {hint}.")
    return content
