"""Examples of components for the package's documentation: the docstring's, and the same in TypeScript and YAML."""

import ast
import inspect
import json
import re
import textwrap
from dataclasses import dataclass
from typing import Any

import yaml
from pulumi.provider.experimental.util import camel_case


@dataclass(frozen=True)
class Reference:
    """An output of a resource, `network.subnetIds`; of no resource of the example, a value that a user has."""

    resource: str | None
    output: str


@dataclass(frozen=True)
class Resource:
    """A component of an example."""

    variable: str
    kind: str
    name: str
    inputs: dict[str, Any]


class Example:
    """A component's example, read from its docstring.

    Args:
        component: The class.
        package: The package's name.
        known: Components of the package; others are left out, and their outputs become values of the configuration.
    """

    def __init__(self, component: type, package: str, known: set[str]) -> None:
        found = re.search(r"```python\n(.*?)```", inspect.cleandoc(component.__doc__ or ""), re.DOTALL)
        if not found:
            raise ValueError(f"{component.__name__} has no example in its docstring")
        self._component, self._package, self._known = component.__name__, package, known
        self.python = textwrap.dedent(found[1]).strip()
        self._values: dict[str, Any] = {}
        self.resources: dict[str, Resource] = {}
        self._exports: dict[str, Reference] = {}
        self._configured: list[str] = []
        for statement in ast.parse(self.python).body:
            self._read(statement)

    def markdown(self) -> str:
        """The example in the form of a package's schema."""
        blocks = {"python": self._with_imports(), "typescript": self.typescript(), "yaml": self.yaml()}
        code = "\n\n".join(f"```{language}\n{text.strip()}\n```" for language, text in blocks.items())
        return "\n".join(
            ["{{% examples %}}", "## Example Usage", "{{% example %}}", code, "{{% /example %}}", "{{% /examples %}}"]
        )

    def typescript(self) -> str:
        """The example as a module of TypeScript."""
        lines = ['import * as pulumi from "@pulumi/pulumi";'] if self._configured else []
        lines.append(f'import * as {self._package} from "@pulumi/{self._package}";\n')
        lines += ["const config = new pulumi.Config();"] if self._configured else []
        for each in self.resources.values():
            arguments = f"{json.dumps(each.name)}, {_typescript(each.inputs)}"
            lines.append(f"const {each.variable} = new {self._package}.{each.kind}({arguments});")
        for name, reference in self._exports.items():
            taken = name in self.resources
            exported = f"{reference.resource}{camel_case(f'_{reference.output}')}" if taken else name
            lines.append(f"export const {exported} = {reference.resource}.{reference.output};")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The example as a YAML program."""
        resources = {
            each.name: {"type": f"{self._package}:index:{each.kind}", "properties": self._yaml(each.inputs)}
            for each in self.resources.values()
        }
        config = {name: {"type": "string"} for name in self._configured}
        outputs = {name: self._yaml(reference) for name, reference in self._exports.items()}
        whole = {"config": config, "resources": resources, "outputs": outputs}
        return {key: value for key, value in whole.items() if value}

    def yaml(self) -> str:
        return yaml.safe_dump(self.document(), sort_keys=False, width=110)

    def _with_imports(self) -> str:
        calls = [node.func for node in ast.walk(ast.parse(self.python)) if isinstance(node, ast.Call)]
        called = {each.id for each in calls if isinstance(each, ast.Name)}
        lines = ["import pulumi"] if "pulumi." in self.python else []
        return "\n".join([*lines, f"from tidemill_pulumi import {', '.join(sorted(called))}", "", self.python])

    def _read(self, statement: ast.stmt) -> None:
        """A component, a value with a name, or an export; nothing else is in an example."""
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self._known:
                inputs = self._value(value.args[1])
                self.resources[name] = Resource(name, value.func.id, ast.literal_eval(value.args[0]), inputs)
            elif not (isinstance(value, ast.Call) and value.args):
                self._values[name] = self._value(value)
        elif isinstance(statement, ast.Expr) and ast.unparse(statement).startswith("pulumi.export("):
            name, value = statement.value.args  # type: ignore[attr-defined]  it is a call
            self._exports[camel_case(ast.literal_eval(name))] = self._value(value)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Dict():
                keys = [camel_case(ast.literal_eval(key)) for key in node.keys if key]
                return dict(zip(keys, map(self._value, node.values), strict=True))
            case ast.List():
                return [self._value(each) for each in node.elts]
            case ast.Call():
                return {camel_case(each.arg): self._value(each.value) for each in node.keywords if each.arg}
            case ast.Attribute() | ast.Subscript():
                return self._reference(node)
            case ast.Name():
                return self._values[node.id]
            case _:
                return eval(compile(ast.Expression(node), self._component, "eval"), {"__builtins__": {}}, self._values)

    def _reference(self, node: ast.expr) -> Reference:
        if isinstance(node, ast.Subscript):
            whole = self._reference(node.value)
            return Reference(whole.resource, f'{whole.output}["{ast.literal_eval(node.slice)}"]')
        root, *rest = ast.unparse(node).split(".")
        output = camel_case("_".join(rest))
        if root in self.resources:
            return Reference(root, output)
        if output not in self._configured:
            self._configured.append(output)
        return Reference(None, output)

    def _yaml(self, value: Any) -> Any:
        if isinstance(value, Reference):
            name = self.resources[value.resource].name if value.resource else None
            return f"${{{name}.{value.output}}}" if name else f"${{{value.output}}}"
        if isinstance(value, dict):
            return {key: self._yaml(inner) for key, inner in value.items()}
        return [self._yaml(inner) for inner in value] if isinstance(value, list) else value


def _typescript(value: Any, indent: str = "") -> str:
    """A value as TypeScript writes it, in one line if it is short."""
    if isinstance(value, Reference):
        return f"{value.resource}.{value.output}" if value.resource else f'config.require("{value.output}")'
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    inner = f"{indent}    "
    if isinstance(value, dict):
        parts, ends = [f"{_key(key)}: {_typescript(each, inner)}" for key, each in value.items()], "{}"
    else:
        parts, ends = [_typescript(each, inner) for each in value], "[]"
    space = " " if ends == "{}" else ""
    line = f"{ends[0]}{space}{', '.join(parts)}{space}{ends[1]}"
    if len(line) <= 80 and "\n" not in line:
        return line
    return "\n".join([ends[0], *(f"{inner}{part}," for part in parts), f"{indent}{ends[1]}"])


def _key(key: str) -> str:
    return key if key.isidentifier() else json.dumps(key)
