"""Named inputs of a job: files and folders of this machine are sent, URIs are looked at."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidemill import layout
from tidemill.chain import SCHEME
from tidemill.client.items.fetch_rules import SHOWN
from tidemill.client.items.local_files import LocalFile, look, path_of
from tidemill.client.site import Site
from tidemill.client.upload.session import UploadSession
from tidemill.errors import CallerError, StoreError
from tidemill.inputs import MAX_FILES
from tidemill.placeholders import PLACEHOLDERS
from tidemill.store import Stores
from tidemill.tree import Tree, TreeFile


class LocalInput:
    """A file or a folder of this machine as a named input. Every file is looked at, and counted, when it is made.

    Raises:
        CallerError: It is not there, is empty, or has something that cannot be sent.
    """

    def __init__(self, session: UploadSession, name: str, path: str) -> None:
        self._session, self._name, self._path = session, name, os.path.abspath(path)
        if not os.path.lexists(path):
            raise _wrong(name, f"{path} does not exist.")
        self._is_folder = os.path.isdir(path)
        count = 0
        for count, _ in enumerate(self._files(), start=1):
            if count > MAX_FILES:
                raise _wrong(name, f"{path} has more than {MAX_FILES} files.", "Pack them, or make them items.")
        if not count:
            raise _wrong(name, f"{path} has no files.")
        session.count(self._files(), count)

    def _files(self) -> Iterator[LocalFile]:
        if not self._is_folder:
            yield look(self._path)
            return
        root = os.path.realpath(self._path)
        for folder, folders, files in os.walk(self._path, onerror=self._refuse):
            folders.sort()
            yield from (look(os.path.join(folder, name), root) for name in sorted(files))

    def _refuse(self, error: OSError) -> None:
        raise _wrong(self._name, f"{error.filename} cannot be read: {error.strerror}.", "Correct its permissions.")

    def send(self) -> str:
        """Send it; returns its URI."""
        store = self._session.site.store
        sent = [one for one in self._session.send(self._files()) if one is not None]
        if not self._is_folder:
            return store.uri_of(sent[0].name)
        tree = Tree(
            tuple(
                TreeFile(os.path.relpath(one.file.path, self._path), one.file.size, one.sha256, one.name)
                for one in sent
            )
        )
        content = tree.encode()
        name = layout.uploaded_tree(hashlib.sha256(content).hexdigest())
        self._session.put_tree(name, content)
        return store.uri_of(name)


def check_names(inputs: Iterable[str], placeholders: Iterable[str]) -> None:
    """Refuse a name that means something else in the command; `placeholders` are those of the job's items."""
    taken = (*PLACEHOLDERS, "code", "meta", *placeholders)
    for name in inputs:
        if name in taken:
            raise CallerError.about("input", name, f"none of {', '.join(taken)}", "Choose another name.")


def open_input(session: UploadSession, name: str, value: str | Path) -> LocalInput | str:
    """A named input as a caller gave it: something to send, or the URI that the machines read.

    Raises:
        CallerError: It cannot be an input, or the machines cannot read it.
    """
    site, given = session.site, str(value)
    path = path_of(given)
    if given.startswith(SCHEME):
        return given
    if path is None:
        return _checked(site, name, given)
    if not site.store.uri.startswith("file://"):
        return LocalInput(session, name, path)
    if not os.path.exists(path):
        raise _wrong(name, f"{path} does not exist.")
    return Path(path).absolute().as_uri()


def _checked(site: Site, name: str, uri: str) -> str:
    """The URI of an object or, with a slash at its end, of a prefix; looked at where the caller may."""
    if not uri.startswith(site.descriptor.readable_prefixes):
        granted = ", ".join(site.descriptor.readable_prefixes[:SHOWN])
        advice = "Ask the stack's owner to add it to tidemill:data.read."
        raise _wrong(name, f"jobs of this pipeline may not read {uri}; the stack grants {granted}.", advice)
    store, key = Stores(site.store, site.descriptor.region, user_login=True).locate(uri)
    try:
        if not uri.endswith("/") and store.size(key) is not None:
            return uri
        if store.page(key):
            return f"{uri.rstrip('/')}/"
    except StoreError:
        # The machines may read it where the caller may not.
        return uri
    raise _wrong(name, f"{uri} does not exist.")


def _wrong(name: str, problem: str, fix: str = "Correct it.") -> CallerError:
    return CallerError(f"input {name}: {problem}", fix, what="input")
