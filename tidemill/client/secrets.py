"""Personal secrets of a pipeline: set, listed and removed by their owner, and asked for by a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.client.arguments import texts
from tidemill.client.site import Site
from tidemill.errors import CallerError
from tidemill.request import OPTIONS
from tidemill.secrets.rules import check_name, check_value
from tidemill.secrets.secret_store import SecretStore


class PersonalSecrets:
    """A person's secrets for jobs of a pipeline. `Pipeline.secrets` has them; their values are never shown.

    On this machine they are in a file that only the user may read. In a cloud they are in its secret store, and only
    the pipeline's one submitter and their jobs may read them.

    Example:
        >>> pipeline.secrets.set("HF_TOKEN", "hf_example")
        >>> pipeline.secrets.names()
        ['HF_TOKEN']
        >>> pipeline.secrets.remove("HF_TOKEN")
    """

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    @property
    def place(self) -> str:
        """Where they are kept: a path, or the secret's name in the cloud."""
        return self._store.place

    def set(self, name: str, value: str) -> None:
        """Keep a secret, in place of one of the same name.

        Args:
            name: Name of the variable that a job's program finds.
            value: Text of 1 to 32768 bytes in UTF-8. It may have several lines.

        Raises:
            CallerError: A name or value that no variable has, or too many bytes together.
            CloudError: The secret store refused.
        """
        check_name(name)
        check_value(name, value)
        self._store.change({name: value})

    def names(self) -> list[str]:
        """Names of those that are set, in alphabetical order.

        Raises:
            CloudError: The secret store refused.
        """
        return sorted(self._store.read())

    def remove(self, name: str) -> None:
        """Forget a secret. Programs that run already keep their variable.

        Raises:
            CallerError: It is not set.
            CloudError: The secret store refused.
        """
        if name not in (known := self._store.read()):
            self._store.forget_earlier()
            raise _not_set("name", [name], known, remedy=False)
        self._store.change({}, [name])


def store_of(site: Site) -> SecretStore:
    """Where the caller's secrets for a pipeline's jobs are.

    Raises:
        CallerError: It keeps none.
    """
    store = site.account.secrets()
    if store is None:
        pipeline = f"{site.descriptor.team}-{site.descriptor.environment}"
        raise CallerError(
            f"{pipeline} keeps no personal secrets: several people may submit to it, and their jobs share a role.",
            "Use a pipeline of your own with `tidemill:access.personal_secrets`, or ask the stack's owner to declare a "
            "secret of the team under tidemill:queues.<queue>.secrets.",
            what="secrets",
        )
    return store


def asked(given: Any, env: Mapping[str, str]) -> list[str]:
    """The names of a request, each once.

    Raises:
        CallerError: One is no such name, or is a variable of `env` too.
    """
    about = OPTIONS["secrets"]
    names = sorted(set(texts("secrets", given or (), about.must, about.fix)))
    for name in names:
        check_name(name, "secrets")
        if name in env:
            raise CallerError(
                f"{name} is given by `env` and by `secrets`.", "Leave one of the two out.", what="secrets"
            )
    return names


def check_set(site: Site, names: Iterable[str]) -> None:
    """Refuse a job whose secrets are not set for the caller.

    Raises:
        CallerError: Which ones.
        CloudError: The secret store refused.
    """
    if wanted := list(names):
        store = store_of(site)
        if missing := sorted({*wanted} - store.of_job(wanted).keys()):
            raise _not_set("secrets", missing, store.read())


def _not_set(what: str, names: list[str], known: Iterable[str], *, remedy: bool = True) -> CallerError:
    allowed = ", ".join(sorted(known))
    missing = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not set"
    return CallerError(
        f"{what}: {missing}; {f'set: {allowed}' if allowed else 'no secret is set'}.",
        command=f"tidemill secret set {names[0]}" if remedy else "",
        what=what,
        value=", ".join(names),
        allowed=allowed,
    )
