"""IAM conditions: the part of CEL used by conditions on resources, time and tokens.

Known: `resource.name|type|service`, `request.time`, the claims of `CLAIMS`, `api.getAttribute(name, default)`,
texts, `timestamp(text)`, `startsWith`, `endsWith`, `contains`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `&&`, `||`, `!` and
brackets. Anything else is an error. Source: https://cloud.google.com/iam/docs/conditions-attribute-reference
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

Values = Mapping[str, Any]
Node = Callable[[Values], Any]

TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|&&|\|\||[=!<>]=|[<>!().,]|[A-Za-z_]\w*)""")
COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
           ">=": operator.ge}  # fmt: skip
METHODS = {"startsWith": str.startswith, "endsWith": str.endswith, "contains": str.__contains__}
CLAIMS = (
    "repository", "repository_id", "repository_owner_id", "sub", "ref", "ref_type", "ref_protected", "project_id",
    "project_path", "environment_protected", "pipeline_source",
)  # fmt: skip
"""Of GitHub's tokens and of GitLab's."""
VARIABLES = {"resource.name", "resource.type", "resource.service", "request.time"} | {
    f"assertion.{claim}" for claim in CLAIMS
}


class ConditionError(ValueError):
    """An expression that is not supported here."""


@functools.lru_cache(maxsize=1024)
def compiled(expression: str) -> Node:
    """An expression as a function of the values `{"resource.name": …, "api": {…}}`.

    Raises:
        ConditionError: A word or form is unknown; the text names it.
    """
    tokens, end = [], 0
    while expression[end:].strip():
        match = TOKEN.match(expression, end)
        if not match:
            raise ConditionError(f"not understood from {expression[end:].strip()!r} on")
        tokens.append(match[1])
        end = match.end()
    parser = _Parser(tokens)
    node = parser.either()
    if parser.left:
        raise ConditionError(f"{parser.left[0]!r} was not expected")
    return node


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens

    def _take(self, *wanted: str) -> str:
        if not self.left or (wanted and self.left[0] not in wanted):
            found = self.left[0] if self.left else "the end"
            raise ConditionError(f"expected {' or '.join(wanted) or 'more'}, found {found}")
        return self.left.pop(0)

    def _next(self, *wanted: str) -> bool:
        if self.left and self.left[0] in wanted:
            self.left.pop(0)
            return True
        return False

    def either(self) -> Node:
        parts = [self._both()]
        while self._next("||"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda values: any(part(values) for part in parts)

    def _both(self) -> Node:
        parts = [self._compared()]
        while self._next("&&"):
            parts.append(self._compared())
        return parts[0] if len(parts) == 1 else lambda values: all(part(values) for part in parts)

    def _compared(self) -> Node:
        left = self._value()
        if self.left and self.left[0] in COMPARE:
            compare, right = COMPARE[self._take()], self._value()
            return lambda values: compare(left(values), right(values))
        return left

    def _value(self) -> Node:
        word = self._take()
        if word == "!":
            inner = self._value()
            return lambda values: not inner(values)
        if word == "(":
            node = self.either()
            self._take(")")
        elif word[0] in "\"'":
            text = ast.literal_eval(word)
            node = lambda values: text  # noqa: E731
        elif word == "timestamp":
            (text,) = self._texts()
            moment = datetime.fromisoformat(text).timestamp()
            node = lambda values: moment  # noqa: E731
        else:
            node = self._variable(word)
        while self._next("."):
            method = self._take(*METHODS)
            (argument,) = self._texts()
            node = functools.partial(_called, METHODS[method], node, argument)
        return node

    def _variable(self, word: str) -> Node:
        self._take(".")
        name = f"{word}.{self._take()}"
        if name == "api.getAttribute":
            key, default = self._texts()
            return lambda values: values["api"].get(key, default)
        if name not in VARIABLES:
            raise ConditionError(f"{name!r} is not known")
        return lambda values: values[name]

    def _texts(self) -> list[str]:
        """The arguments of a call, all of which must be texts."""
        self._take("(")
        found = []
        while not self._next(")"):
            if found:
                self._take(",")
            word = self._take()
            if word[0] not in "\"'":
                raise ConditionError(f"expected a text, found {word!r}")
            found.append(ast.literal_eval(word))
        return found


def _called(method: Callable[[Any, str], bool], node: Node, argument: str, values: Values) -> bool:
    return method(node(values), argument)
