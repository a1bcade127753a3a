"""The real Pulumi engine without the vendor's installer: built once from the Go module proxy.

A recent enough vendor CLI on PATH is used instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from localcloud.engine import go as go_build
from localcloud.engine.go import EngineError, run_go

VERSION = "v3.259.0"
PULUMI = f"Pulumi engine {VERSION}"
HERE = Path(__file__).parent


def cache() -> Path:
    """Return the folder of the built engine, which depends on its version and on the modules that it is built from."""
    return go_build.cache() / "engine" / f"{VERSION}-{go_build.key(HERE)}"


def on_path() -> Path | None:
    """Return the vendor's CLI with its own Python language host, if PATH has a recent enough one."""
    found, host = shutil.which("pulumi"), shutil.which("pulumi-language-python")
    if found is None or host is None or b"localcloud.engine.host" in Path(host).read_bytes():
        return None
    command = [found, "version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    return Path(found) if _number(answer.stdout) >= _number(VERSION) else None


def _number(version: str) -> tuple[int, ...]:
    match = re.search(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()


def ensure() -> Path | None:
    """Build the engine if there is none yet. Return the folder of its programs, or None for the vendor's on PATH.

    Raises:
        EngineError: Go is missing, or the module proxy refused or failed.
    """
    if on_path():
        return None
    binaries = cache() / "bin"
    wanted = [binaries / "pulumi", binaries / "pulumi-language-python-exec"]
    if all(path.exists() for path in wanted):
        return binaries
    with go_build.locked(cache()):
        if not all(path.exists() for path in wanted):
            try:
                _build(binaries)
            except EngineError as error:
                raise EngineError(f"{error} A Pulumi CLI {VERSION} or later on PATH is used instead.") from None
    return binaries


def _build(binaries: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise EngineError(f"{PULUMI} is built with Go, which is not on PATH: https://go.dev/dl.")
    source = cache() / "src"
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
    environment = {**os.environ, "GOBIN": str(binaries), **go_build.READ_ONLY}
    stamp = f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={VERSION}"
    # the executor comes first: it only needs the modules, and a proxy that refuses shows at once
    listing = [go, "mod", "download", "-json", "github.com/pulumi/pulumi/sdk/v3"]
    module = run_go(PULUMI, listing, source, environment, "fetching")
    found = re.search(r'"Dir": "(.*)"', module)
    if not found:
        raise EngineError(f"go mod download did not say where it put the SDK's module:\n{module}")
    if not (binaries / "pulumi").exists():
        install = [go, "install", "-trimpath", "-ldflags", f"-s -w {stamp}", "tool"]
        run_go(PULUMI, install, source, environment, "building (about four minutes, once)")
    executor = binaries / "pulumi-language-python-exec"
    partial = executor.with_suffix(".part")
    shutil.copyfile(Path(found[1]) / "python" / "cmd" / executor.name, partial)
    partial.chmod(0o755)
    partial.rename(executor)


def programs(folder: Path) -> None:
    """Write the launchers that the engine looks for on PATH: providers, policy analyzer and, unless PATH has the
    vendor's, the language host, all run by this interpreter."""
    root = HERE.parent.parent
    folder.mkdir(parents=True, exist_ok=True)
    start = f'exec "{sys.executable}" -c \'import sys; sys.path.insert(0, "{root}"); '
    scripts = {
        "pulumi-resource-aws": start + 'from localcloud.aws.provider.server import main; main()\' "$@"',
        "pulumi-resource-gcp": start + 'from localcloud.gcp.provider.server import main; main()\' "$@"',
        "pulumi-analyzer-policy-python": f'exec "{sys.executable}" -u -m pulumi.policy "$@"',
    }
    built = ensure()
    if built:
        # the executor's path is fixed here because a later pulumi call may have another HOME
        host = f'from localcloud.engine.host import main; main("{built}/pulumi-language-python-exec")'
        scripts["pulumi-language-python"] = start + host + '\' "$@"'
        # A command ends before its garbage matters, unless a stack is huge.
        lazily = 'GOGC="${GOGC:-off}" GOMEMLIMIT="${GOMEMLIMIT:-1GiB}"'
        scripts["pulumi"] = f'{lazily} exec "{built}/pulumi" "$@"'
        scripts["pulumi-language-python-exec"] = f'exec "{sys.executable}" "{built}/pulumi-language-python-exec" "$@"'
    for name, script in scripts.items():
        path = folder / name
        partial = path.with_suffix(".part")
        partial.write_text(f"#!/bin/sh\n{script}\n")
        partial.chmod(0o755)
        partial.rename(path)
