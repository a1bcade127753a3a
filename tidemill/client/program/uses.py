"""Everything that a function uses, walked before it is pickled: what cannot leave this process is refused, the size is
bounded, and a fingerprint is made.

Pickled bytes differ from run to run: they hold random ids of classes, files and lines of code, sets in the order of
hashes. The fingerprint holds what the function does: its bytecode with the constants and names, its defaults, and what
it has captured or reads as globals, each followed in the same way. A comment, another cell or a restart changes nothing
of it.
"""

from __future__ import annotations

import copyreg
import dis
import hashlib
import io
import pickle
import re
import socket
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from tidemill import secrecy
from tidemill.client.program.own_modules import OwnModules
from tidemill.errors import CallerError, one_line
from tidemill.figures import file_size

MAX_BYTES = 64 << 20
"""What a function may take with it, as large as its value may be."""
_SECRET = "Keep it with `tidemill secret set NAME`, name it in `secrets`, and read the variable NAME in the function."
_OBJECT_BYTES = 32
"""A lower bound of an object's size in memory: it bounds lists of small objects."""
_ATOMS = (type(None), bool, int, float, complex, type(...), type(NotImplemented))
_TEXTS = (str, bytes, bytearray)
_CLASS_NOISE = {
    "__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__", "_abc_impl",
    "__annotate__", "__annotations_cache__",
}  # fmt: skip
"""Of a class: what says where it was written, or follows from the rest."""
_MODULE_NOISE = {"__builtins__", "__cached__", "__file__", "__loader__", "__spec__"}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OF_TYPES = ("__bound__", "__constraints__", "__value__")
"""Of type variables and aliases: what they stand for."""
_HEAP_TYPE = 1 << 9
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")


def is_named(value: Any) -> bool:
    """True if machines can import a function or class by its module and name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or module not in sys.modules:
        return False
    try:
        return attrgetter(name)(sys.modules[module]) is value
    except AttributeError:
        return False


def _name_of(value: Any) -> tuple[str, ...] | None:
    """The module of a value that a machine finds by its name, and its name there; of a module, its own."""
    if isinstance(value, types.ModuleType):
        # One that a program has made, or loaded from a file by itself, travels with all that is in it.
        return (value.__name__,) if value.__name__ in sys.modules else None
    if isinstance(value, type) and not value.__flags__ & _HEAP_TYPE:
        # Of the interpreter, such as `method`: some have no name to import them by.
        return value.__module__, value.__qualname__
    named = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and is_named(value)
    return (value.__module__, value.__qualname__) if named else None


class Uses:
    """A walk over what a function uses.

    Args:
        name: The function's, for messages.
        reducers: How a pickler takes further types apart.
        modules: Takes the modules that it needs.
    """

    def __init__(self, name: str, reducers: Mapping[type, Any], modules: OwnModules) -> None:
        self._name, self._reducers, self._modules = name, reducers, modules
        self._done: dict[int, bytes] = {}
        self._under: dict[int, int] = {}
        """Objects that are being walked, each with its depth: a cycle is told by how far it leads back."""
        self._back = sys.maxsize
        """The least depth that a cycle has led back to, of what is below the object that is being walked."""
        self._in_cycles = 0
        """Objects walked so far whose digest means something only within the cycle that led to them."""
        self._alive: list[Any] = []
        """An id is an object's own only while it lives."""
        self._left = MAX_BYTES
        self._path: list[str] = []
        self._walks: dict[type, Callable[[Any], Iterable[bytes | str]]] = {
            **dict.fromkeys((tuple, list), self._sequence),
            **dict.fromkeys((set, frozenset), self._set),
            dict: self._dict,
            types.FunctionType: self._function,
            types.CodeType: self._code,
            types.CellType: self._cell,
            types.ModuleType: self._module,
            pickle.PickleBuffer: self._buffer,
        }

    def fingerprint(self, value: Any) -> str:
        """The fingerprint of a function or class.

        Raises:
            CallerError: It uses what cannot leave this process, or more than may travel.
        """
        try:
            return self._walk(value).hex()
        except RecursionError:
            raise self._refused(
                "is nested too deeply to travel", "Flatten it, or make it inside the function."
            ) from None

    def _walk(self, value: Any) -> bytes:
        kind = type(value)
        if kind in _ATOMS:
            self._spend(value, _OBJECT_BYTES)
            # In decimal, Python refuses long ones.
            return _hash(kind.__name__, hex(value) if kind is int else repr(value))
        if kind in _TEXTS:
            self._spend(value, len(value))
            if kind is str and secrecy.VALUE.search(value):
                raise self._refused("looks like a secret, and what a function uses is stored in clear text", _SECRET)
            return _hash(kind.__name__, value.encode("utf-8", "surrogatepass") if kind is str else bytes(value))
        if (done := self._done.get(id(value))) is not None:
            return done
        if (depth := self._under.get(id(value))) is not None:
            self._back = min(self._back, depth)
            return _hash("again", str(len(self._under) - depth))
        self._spend(value, _OBJECT_BYTES)
        depth = self._under[id(value)] = len(self._under)
        outer, self._back = self._back, sys.maxsize
        digest = _hash(*self._parts(value))
        del self._under[id(value)]
        self._done[id(value)] = self._elsewhere() if self._back < depth else digest
        self._back = min(outer, self._back)
        self._alive.append(value)
        return digest

    def _elsewhere(self) -> bytes:
        """The digest, at another place, of an object that leads back to one above it: its number among those."""
        self._in_cycles += 1
        return _hash("seen", str(self._in_cycles))

    def _parts(self, value: Any) -> Iterable[bytes | str]:
        if name := _name_of(value):
            self._modules.add(name[0])
            return "named", *name
        walk = self._walks.get(type(value)) or (self._class if isinstance(value, type) else self._object)
        return walk(value)

    def _sequence(self, value: Iterable[Any]) -> Iterable[bytes | str]:
        return type(value).__name__, *map(self._walk, value)

    def _dict(self, value: dict[Any, Any]) -> Iterable[bytes | str]:
        return "dict", *(self._walk(part) for pair in value.items() for part in pair)

    def _set(self, value: Iterable[Any]) -> Iterable[bytes | str]:
        return type(value).__name__, *sorted(map(self._walk, value))

    def _cell(self, cell: types.CellType) -> Iterable[bytes | str]:
        try:
            return "cell", self._walk(cell.cell_contents)
        except ValueError:  # it is empty
            return ("cell",)

    def _buffer(self, buffer: pickle.PickleBuffer) -> Iterable[bytes | str]:
        self._spend(buffer, buffer.raw().nbytes)
        return "buffer", hashlib.sha256(buffer.raw()).digest()

    def _function(self, function: types.FunctionType) -> Iterable[bytes | str]:
        code = function.__code__
        parts = [self._walk(code)]
        names = sorted(set(_global_names(code)))
        used = {name: function.__globals__[name] for name in names if name in function.__globals__}
        captured = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        own = {
            "a default": function.__defaults__,
            "a default by name": function.__kwdefaults__,
            "an attribute": function.__dict__ or None,
            # Libraries check and convert by annotations, and send docstrings as prompts.
            "an annotation": getattr(function, "__annotate__", None) or function.__annotations__ or None,
            "its docstring": function.__doc__,
        }
        # A name may be captured and, within an inner function, global.
        for label, value in [*captured.items(), *used.items(), *own.items()]:
            parts += [_hash(label), self._named(label, value)]
        return "function", *parts

    def _named(self, label: str, value: Any) -> bytes:
        self._path.append(label)
        digest = self._walk(value)
        self._path.pop()
        return digest

    def _code(self, code: types.CodeType) -> Iterable[bytes | str]:
        """Bytecode without where it was written."""
        for name in _imports(code):
            self._modules.add(name)
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        table = getattr(code, "co_exceptiontable", b"")
        return "code", code.co_code, table, repr(shape), repr(names), *map(self._walk, code.co_consts)

    def _class(self, kind: type) -> Iterable[bytes | str]:
        parts = [*map(self._walk, kind.__bases__), self._walk(type(kind))]
        for name, value in sorted(vars(kind).items()):
            # Slots have descriptors, which follow from `__slots__`.
            if name in _CLASS_NOISE or isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            # A dataclass's docstring says its defaults, functions by their address.
            stable = _ADDRESS.sub("", value) if name == "__doc__" and isinstance(value, str) else value
            parts += [_hash(name), self._named(f"{kind.__name__}.{name}", stable)]
        return "class", kind.__qualname__, *parts

    def _module(self, module: types.ModuleType) -> Iterable[bytes | str]:
        parts = []
        for name, value in sorted(vars(module).items()):
            if name not in _MODULE_NOISE:
                parts += [_hash(name), self._named(f"{module.__name__}.{name}", value)]
        return "module", *parts

    def _type(self, value: Any) -> Iterable[bytes | str]:
        """A type in parts, such as `list[Row]`: its text does not say what a `Row` is."""
        if arguments := typing.get_args(value):
            return "type", type(value).__name__, self._walk(typing.get_origin(value)), *map(self._walk, arguments)
        stands_for = [getattr(value, name) for name in _OF_TYPES if hasattr(value, name)]
        return "text", repr(value), *map(self._walk, stands_for)

    def _object(self, value: Any) -> Iterable[bytes | str]:
        if thing := _bound_here(value):
            raise self._refused(f"is {thing}, which cannot leave this process", "Open or make it inside the function.")
        size = getattr(value, "nbytes", 0)
        if isinstance(size, int) and size > self._left:
            # Before it is taken apart, which may copy it.
            self._spend(value, size)
        if isinstance(value, (types.GenericAlias, types.UnionType)) or type(value).__module__ == "typing":
            return self._type(value)
        reduced = self._reduced(value)
        if isinstance(reduced, str):
            module = pickle.whichmodule(value, reduced)  # type: ignore[attr-defined]
            if module == "__main__":
                raise self._refused(f"is a {type(value).__name__} of this session", "Make it inside the function.")
            self._modules.add(module)
            return "named", module, reduced
        parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
        # How it is put together again says its class, too.
        return "object", *map(self._walk, parts)

    def _reduced(self, value: Any) -> Any:
        try:
            reduce = self._reducers.get(type(value)) or copyreg.dispatch_table.get(type(value))
            return reduce(value) if reduce else value.__reduce_ex__(5)
        except CallerError:
            raise
        except Exception as error:  # whatever a class raises that has its own way to be pickled
            raise self._refused(
                f"is a {type(value).__name__}, which cannot leave this process ({one_line(error)})",
                "Make it inside the function.",
            ) from None

    def _spend(self, value: Any, size: int) -> None:
        self._left -= size
        if self._left < 0:
            large = f"is a {type(value).__name__} of {file_size(size)}" if size > _OBJECT_BYTES else "is large"
            raise self._refused(
                f"{large}, and a function may take {MAX_BYTES >> 20} MiB with it",
                "Load it inside the function; a file or folder that all items read goes into `inputs`.",
            )

    def _refused(self, why: str, fix: str) -> CallerError:
        uses = f"; `{self._path[-1]}`, which it uses, " if self._path else "; an object that it uses "
        return CallerError(f"function is {self._name}{uses}{why}.", fix, what="function")


def _hash(*parts: bytes | str) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)


def _global_names(code: types.CodeType) -> Iterator[str]:
    for each in _all_code(code):
        yield from (str(step.argval) for step in dis.get_instructions(each) if step.opname in _GLOBALS)


def _imports(code: types.CodeType) -> Iterator[str]:
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")


def _bound_here(value: Any) -> str | None:
    """Words for what belongs to this process or its machine."""
    if isinstance(value, socket.socket):
        return "an open socket"
    if isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO)):
        return None if any(value is each for each in (sys.stdout, sys.stderr, sys.stdin)) else "an open file"
    if hasattr(value, "__cuda_array_interface__"):
        return "in the memory of a GPU"
    if isinstance(value, types.GeneratorType):
        return "a generator"
    return None
