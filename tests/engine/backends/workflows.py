"""Runs the jobs of .github/workflows: their own commands, expressions, logins and artifacts, read from the YAML.

Each `run` is typed as it stands. It evaluates the expressions of `env`, `with`, `matrix`, `outputs` and of steps' `if`,
and refuses one that it does not know. Which jobs follow which is the caller's: a job's own `if` and its approvals are
GitHub's.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ops.project import ROOT
from tests.harness import ended, python

_EXPRESSION = re.compile(r"\$\{\{((?:(?!\}\}).)+)\}\}", re.DOTALL)
_SECONDS = 900
_SET_UP = ("actions/checkout@", "./.github/actions/setup")
"""Steps that lay out what the checkout here has already."""


@dataclass(frozen=True)
class Done:
    """The end of a job.

    Attributes:
        code: The exit code of the first step that failed; 0 for none.
        text: What its steps printed.
    """

    code: int
    text: str

    def ok(self) -> Done:
        assert self.code == 0, self.text
        return self


@dataclass
class Workflows:
    """The workflows of a repository on one runner.

    Args:
        checkout: Where steps run; the caller checks the right commit out.
        env: The environment of each step, without any cloud's login.
        log_in: Returns the variables of a login to the role with an ARN.
        github: The context `github`, without its `event`.
        variables: The repository's variables.
    """

    checkout: Path
    env: Mapping[str, str]
    log_in: Callable[[str], Mapping[str, str]]
    github: Mapping[str, Any]
    variables: Mapping[str, str]
    event: Mapping[str, Any] = field(default_factory=dict)
    _outputs: dict[str, dict[str, str]] = field(default_factory=dict)

    def started(self, **event: Any) -> Workflows:
        """The workflows when something has happened; no job has run yet."""
        return Workflows(self.checkout, self.env, self.log_in, self.github, self.variables, event)

    def rows(self, workflow: str, job: str) -> list[dict[str, Any]]:
        """The rows of a job's matrix, from the outputs of jobs that have run."""
        return self._value(_job(workflow, job)["strategy"]["matrix"]["include"], self._contexts())

    def run(self, workflow: str, job: str, index: int | None = None) -> Done:
        """Run a job to its end.

        Args:
            workflow: Its file's name without the suffix.
            job: Its key.
            index: The row of its matrix.
        """
        found, contexts = _job(workflow, job), self._contexts()
        if index is not None:
            contexts |= {"matrix": self.rows(workflow, job)[index], "strategy": {"job-index": index}}
        contexts["env"] = self._texts(found.get("env", {}), contexts)
        login: dict[str, str] = {}
        code, printed, steps = 0, "", {}
        for step in found["steps"]:
            condition = _EXPRESSION.sub(r"\1", step.get("if", "true"))
            goes_on = re.search(r"always\(\)|cancelled\(\)", condition)
            if (code and not goes_on) or not _evaluated(condition, contexts):
                continue
            given = self._texts(step.get("with", {}), contexts)
            if "uses" in step:
                login |= self._use(step["uses"], given)
                continue
            env = contexts["env"] | self._texts(step.get("env", {}), contexts)
            ended, text, outputs = self._typed(step["run"], {**self.env, **login, **env})
            steps[step.get("id")] = {"outputs": outputs}
            code, printed = code or ended, printed + text
        self._outputs[job] = self._texts(found.get("outputs", {}), contexts | {"steps": steps})
        return Done(code, printed)

    def _contexts(self) -> dict[str, Any]:
        needs = {job: {"outputs": outputs} for job, outputs in self._outputs.items()}
        github = {**self.github, "event": self.event}
        return {"github": github, "vars": self.variables, "needs": needs, "inputs": self.event.get("inputs", {})}

    def _use(self, action: str, given: Mapping[str, str]) -> Mapping[str, str]:
        """Do what an action does. Returns the variables that it leaves to the steps after it."""
        artifacts = self.checkout / ".venv-artifacts"
        if action == "./.github/actions/login":
            return self.log_in(given["identity"])
        if action.startswith("actions/upload-artifact@"):
            source, target = self.checkout / given["path"], artifacts / given["name"]
            target.mkdir(parents=True, exist_ok=True)
            for file in source.iterdir() if source.is_dir() else [source]:
                shutil.move(file, target / file.name)
        elif action.startswith("actions/download-artifact@"):
            wanted = given.get("pattern") or given["name"]
            for folder in artifacts.iterdir():
                if fnmatch.fnmatch(folder.name, wanted):
                    shutil.copytree(folder, self.checkout / given.get("path", "."), dirs_exist_ok=True)
        else:
            assert action.startswith(_SET_UP), f"{action} is not known here"
        return {}

    def _typed(self, command: str, env: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
        """Run a step's command, with forks in place of its interpreter. Returns its code, output and outputs."""
        output = self.checkout / ".venv-output"
        output.write_text("")
        words = ["bash", "-e", "-c", command.replace(".venv/bin/python", python())]
        env = {**env, "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": os.devnull}
        code, text = ended(words, self.checkout, env, _SECONDS)
        lines = (line.partition("=") for line in output.read_text().splitlines())
        return code, text, {name: value for name, _, value in lines}

    def _texts(self, given: Mapping[str, Any], contexts: Mapping[str, Any]) -> dict[str, str]:
        return {name: _text(self._value(value, contexts)) for name, value in given.items()}

    def _value(self, given: Any, contexts: Mapping[str, Any]) -> Any:
        if whole := _EXPRESSION.fullmatch(str(given)):
            return _evaluated(whole[1], contexts)
        return _EXPRESSION.sub(lambda each: _text(_evaluated(each[1], contexts)), str(given))


def _job(workflow: str, job: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())["jobs"][job]


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _evaluated(expression: str, contexts: Mapping[str, Any]) -> Any:
    """The value of an expression. https://docs.github.com/en/actions/reference/workflows-and-actions/expressions"""
    expression = expression.strip()
    for operator, ends in (("||", True), ("&&", False)):
        left, found, right = expression.partition(operator)
        if found:
            value = _evaluated(left, contexts)
            return value if bool(value) is ends else _evaluated(right, contexts)
    for operator in ("==", "!="):
        left, found, right = expression.partition(operator)
        if found:
            return (_evaluated(left, contexts) == _evaluated(right, contexts)) is (operator == "==")
    if expression.startswith("'"):
        return expression.strip("'")
    if call := re.fullmatch(r"(toJSON|fromJSON)\((.+)\)", expression):
        return {"toJSON": json.dumps, "fromJSON": json.loads}[call[1]](_evaluated(call[2], contexts))
    constants = {"true": True, "always()": True, "!cancelled()": True}
    return constants[expression] if expression in constants else _looked_up(expression, contexts)


def _looked_up(path: str, contexts: Mapping[str, Any]) -> Any:
    """A value of a context; empty where it has no such key, as on GitHub."""
    first, *keys = path.split(".")
    assert first in contexts, f"{path} is not known here"
    value: Any = contexts[first]
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return "" if value is None else value
