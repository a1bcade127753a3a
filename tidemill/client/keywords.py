"""Keywords of the methods that take a request: typed for editors, and checked for people."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, getdoc, signature
from typing import Concatenate, ParamSpec, TypeVar

from tidemill.errors import CallerError, nearest
from tidemill.request import STATE, JobRequest, complete

P = ParamSpec("P")
Owner = TypeVar("Owner")
Request = TypeVar("Request")
Result = TypeVar("Result")

complete()
KEYWORDS = frozenset(field.name for field in fields(JobRequest))
_OTHER_NAMES = {
    ("workers", "max_parallel"): "n_jobs jobs j cores processes workers max_workers num_workers concurrency",
    ("attempts",): "retries retry max_retries retry_times restart_times max_attempts",
    ("cpus",): "cpu vcpus num_cpus ncpus threads",
    ("gpus",): "gpu num_gpus ngpus",
    ("memory",): "mem mem_mb memory_mb ram",
    ("timeout",): "time walltime time_limit max_time",
    ("chunk_size",): "batch_size chunksize",
    ("changed",): "rerun_triggers skip_done",
    ("force",): "forceall forcerun rerun no_cache",
    ("env",): "environment environ vars",
    ("file",): "output out o",
    ("items", "sweep"): "items i files",
    ("older_than",): "days age before",
}
"""By our names, the first of which a command or method has is meant: what people type who know another tool."""


def taking(
    make: Callable[P, Request], keywords: Collection[str] = ()
) -> Callable[[Callable[[Owner, Request], Result]], Callable[Concatenate[Owner, P], Result]]:
    """Give a method that takes a request the arguments of the function or class that makes one, and their description.
    `keywords` are further ones that the function passes on; with any, a mistake is a `CallerError`."""

    def decorate(method: Callable[[Owner, Request], Result]) -> Callable[Concatenate[Owner, P], Result]:
        taken = signature(make)
        known = {*keywords, *(name for name, one in taken.parameters.items() if one.kind is not Parameter.VAR_KEYWORD)}

        @wraps(method)
        def called(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
            if keywords:
                check_keywords(method.__name__, kwargs, known)
            try:
                taken.bind(*args, **kwargs)
            except TypeError as error:
                # Of the method, not of the class that it makes.
                if keywords:
                    raise CallerError(f"`{method.__name__}`: {error}.", what=method.__name__) from None
                raise TypeError(f"{method.__qualname__}(): {error}") from None
            return method(self, make(*args, **kwargs))

        owner = Parameter("self", Parameter.POSITIONAL_ONLY)
        called.__dict__["__signature__"] = taken.replace(parameters=[owner, *taken.parameters.values()])
        _, attributes, described = (getdoc(make) or "").partition("\nAttributes:\n")
        called.__doc__ = f"{getdoc(method)}\n\nArgs:\n{described}" if attributes else method.__doc__
        return called

    return decorate


def naming_mistakes(owner: type[Owner]) -> type[Owner]:
    """A class whose public methods name a keyword that they do not have, and the one that is probably meant."""
    for name, given in list(vars(owner).items()):
        method = given.__func__ if isinstance(given, classmethod) else given
        if not name.startswith("_") and inspect.isfunction(method):
            checked = _checking(method)
            setattr(owner, name, classmethod(checked) if isinstance(given, classmethod) else checked)
    return owner


def _checking(method: Callable[P, Result]) -> Callable[P, Result]:
    taken = signature(method).parameters.values()
    if any(one.kind is Parameter.VAR_KEYWORD for one in taken):
        return method  # It checks them itself.
    known = {one.name for one in taken if one.kind is not Parameter.POSITIONAL_ONLY} - {"self", "cls"}

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> Result:
        check_keywords(method.__name__, kwargs, known)
        return method(*args, **kwargs)

    return called


def check_keywords(verb: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keywords that a method does not have.

    Raises:
        CallerError: One of them, with the one that is probably meant.
    """
    names = sorted(known)
    for name in given:
        if name in names:
            continue
        raise CallerError(
            f"`{verb}` has no setting {name!r}.{_near(name, names)}",
            f"It has: {', '.join(names)}.",
            what=name,
            allowed=", ".join(names),
        )


def other_name(typed: str, ours: Collection[str]) -> str | None:
    """The name among `ours` that is meant by one of another tool; None where none is."""
    for meant, others in _OTHER_NAMES.items():
        if typed in others.split():
            return next((name for name in meant if name in ours), None)
    return None


def _near(name: str, names: list[str]) -> str:
    """The keyword that is probably meant, as a sentence after a space."""
    for setting, about in STATE.items():
        # An earlier name of the flag is as likely.
        if name in (setting, about.old.removeprefix("--").replace("-", "_")) and "state" in names:
            return f" It goes into `state`: state={{{setting!r}: ...}}."
    other = other_name(name, names)
    return f" Did you mean {other!r}?" if other else nearest(name, names)
