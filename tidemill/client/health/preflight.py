"""Checks that a submit makes before it writes anything of a job."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from urllib.parse import unquote

from tidemill.client.site import Site
from tidemill.code import PACKAGE_FILES, REQUIREMENTS, CodeArchive
from tidemill.descriptor import Descriptor
from tidemill.errors import CallerError, CloudError, StoreDeniedError, StoreError
from tidemill.job import JobSpec
from tidemill.layout import CREATE_PROBE
from tidemill.store import Store

SHOWN = 6
"""Prefixes that an error names."""


def check_packages(site: Site, spec: JobSpec, packed: CodeArchive | None) -> None:
    """Check that the packages of the code are where `pip_index` or `wheelhouse` says.

    Raises:
        CallerError: There is nothing to install, or nothing to install it from.
    """
    for key, value in (("pip_index", spec.pip_index), ("wheelhouse", spec.wheelhouse)):
        if value and (packed is None or not packed.requirements):
            raise CallerError(
                f"{key} is {value!r}, but no code with a {REQUIREMENTS} is given.", "Give both, or neither."
            )
    if spec.wheelhouse:
        store, prefix = site.stores().locate(spec.wheelhouse)
        try:
            empty = not any(entry.name.endswith(PACKAGE_FILES) for entry in store.entries(prefix))
        except StoreError:
            # The machines may read it where we may not: then pip tells.
            return
        if empty:
            raise CallerError.about(
                "wheelhouse", spec.wheelhouse, f"a prefix with packages ({', '.join(PACKAGE_FILES)})", "Upload them."
            )


def check_store(store: Store) -> None:
    """Check that the store can be written, and creates an object only where none is.

    Raises:
        CallerError: It has no conditional create: two workers could then both believe that their record counts.
        CloudError: It cannot be written with this login.
    """

    def created() -> bool:
        return store.create(CREATE_PROBE, secrets.token_hex(16).encode()).ours

    try:
        # Every content is new, so a store that keeps the promise says "ours" once at most: the very first time.
        keeps_nothing = created() and created()
    except StoreDeniedError as error:
        advice = "Ask the stack's owner to let you submit (tidemill:access.submitters)."
        raise StoreDeniedError(f"{store.uri} may not be written ({error}).", advice) from error
    if keeps_nothing:
        raise CallerError(
            f"The store {store.uri} has no conditional create (If-None-Match): a second create overwrites the first.",
            "Use a store that has it.",
        )


def check_output(site: Site, spec: JobSpec) -> None:
    """Check that the caller's place for outputs exists, and that jobs may write there."""
    if spec.output is None:
        return
    if not site.descriptor.may_hold_outputs(spec.output):
        raise CallerError.about("output", spec.output, *where_outputs_go(site.descriptor))
    if spec.output.startswith(f"{site.store.uri}/"):
        return
    allowed, advice = "a URI that the machines can write", "Choose another, or leave it out for <store>/out/<job>."
    if spec.output.startswith("file://"):
        path = Path(unquote(spec.output.removeprefix("file://")))
        there = next((folder for folder in (path, *path.parents) if folder.exists()), path)
        if site.store.uri.startswith("file://") and not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            raise CallerError.about("output", spec.output, f"{allowed} ({there} cannot be)", advice)
        return
    store, name = site.stores().locate(spec.output)
    try:
        next(iter(store.list(name)), None)
    except StoreDeniedError:
        return  # It is the machines that write there, and the stack's `data.write` names it.
    except (StoreError, CloudError) as error:
        raise CallerError.about("output", spec.output, f"{allowed} ({error})", advice) from None


def where_outputs_go(descriptor: Descriptor) -> tuple[str, str]:
    """Where outputs may go, and what to do when that does not suit."""
    prefixes = descriptor.output_prefixes
    more = f" and {len(prefixes) - SHOWN} more" if len(prefixes) > SHOWN else ""
    advice = "Leave it out for <store>/out/<job>, or ask the stack's owner to add it to tidemill:data.write."
    return f"a URI below {', '.join(prefixes[:SHOWN])}{more}", advice
