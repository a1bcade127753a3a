"""Imports go one way. What this cannot see: imports by a computed name."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PULUMI = ["pulumi", "pulumi_aws", "pulumi_gcp", "pulumi_policy"]

# package -> what its modules may not import. Prefixes of dotted names; the longest matching package decides.
FORBIDDEN = {
    "tidemill": ["components", "localcloud", "ops", "plugin", "policy", *PULUMI],
    "tidemill.descriptor": ["tidemill"],
    # Leaves that everybody may import.
    "tidemill.errors": ["tidemill"],
    "tidemill.prices": ["tidemill"],
    "tidemill.capacity": ["tidemill"],
    "tidemill.store": ["tidemill.client", "tidemill.cli", "tidemill.worker", "tidemill.backends", "tidemill.ledger"],
    "tidemill.manifest": ["tidemill.client", "tidemill.cli", "tidemill.worker", "tidemill.backends", "tidemill.ledger"],
    "tidemill.ledger": ["tidemill.client", "tidemill.cli", "tidemill.worker", "tidemill.backends"],
    "tidemill.worker": ["tidemill.client", "tidemill.cli", "tidemill.backends", "boto3", "botocore", "click", "rich"],
    "tidemill.worker.leases": ["tidemill.backends"],
    "tidemill.backends": ["tidemill.worker", "tidemill.cli", "tidemill.client"],
    "tidemill.client": ["tidemill.worker", "tidemill.cli"],
    "components": ["localcloud", "ops", "plugin", "policy", "tidemill"],
    # A stack loads its own cloud's SDK alone.
    "components.aws": ["components.gcp", "pulumi_gcp"],
    "components.gcp": ["components.aws", "pulumi_aws"],
    "components.config": ["components.aws", "components.gcp", "pulumi_aws", "pulumi_gcp"],
    "plugin": ["localcloud", "ops", "policy", "tidemill"],
    "policy": ["components", "localcloud", "ops", "plugin", "tidemill"],
    "ops": ["plugin", "policy", "tidemill"],
    "ops.first_account": ["plugin", "policy"],
    "localcloud": ["components", "ops", "plugin", "policy", "tidemill", "pulumi_aws", "pulumi_gcp"],
}
# The one contract that both halves share, the price table, and the arithmetic of capacity.
ALLOWED = {
    "components": ["tidemill.capacity", "tidemill.descriptor", "tidemill.errors", "tidemill.prices"],
    "ops": ["tidemill.capacity", "tidemill.prices"],
    # It does on an account what the pipeline's users do.
    "ops.first_account": ["tidemill"],
    "policy": ["tidemill.capacity", "tidemill.prices"],
    "tidemill.prices": ["tidemill.prices"],
    "tidemill.capacity": ["tidemill.prices"],
}


def modules() -> list[tuple[str, Path]]:
    found = []
    for package in sorted({name.split(".")[0] for name in FORBIDDEN}):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append((".".join(part for part in parts if part != "__init__"), path))
    return found


def under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def imports(module: str, path: Path) -> set[str]:
    """Dotted names that a module imports, relative ones made absolute, at any depth."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names.update(f"{origin}.{alias.name}" for alias in node.names)
    return names


def violations(module: str, names: set[str]) -> list[str]:
    package = max((p for p in FORBIDDEN if under(module, p)), key=len)
    # A rule of an outer package holds for the inner ones too.
    packages = [p for p in FORBIDDEN if under(package, p)]
    wrong = []
    for name in sorted(names):
        for p in packages:
            allowed = [*ALLOWED.get(p, []), *ALLOWED.get(package, [])]
            if any(under(name, bad) for bad in FORBIDDEN[p]) and not any(under(name, ok) for ok in allowed):
                wrong.append(name)
    return wrong


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_go_one_way(module: str, path: Path) -> None:
    assert violations(module, imports(module, path)) == []


def test_the_check_sees_a_wrong_import() -> None:
    assert violations("tidemill.worker.loop", {"tidemill.client.Pipeline"}) == ["tidemill.client.Pipeline"]
    assert violations("localcloud.cloud", {"tidemill.descriptor"}) == ["tidemill.descriptor"]
    assert violations("components.aws.store", {"tidemill.descriptor.Descriptor"}) == []
    assert violations("ops.drift", {"tidemill.client.Job"}) == ["tidemill.client.Job"]
    assert violations("components.gcp.store", {"components.aws.key", "pulumi_gcp"}) == ["components.aws.key"]


def test_the_worker_and_help_load_no_cloud_sdk() -> None:
    """Boto3 costs a third of a second and is not in a worker's image."""
    eager = {}
    for module, path in modules():
        if not under(module, "tidemill"):
            continue
        top = ast.parse(path.read_text()).body
        names = {a.name for n in top if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module or "" for n in top if isinstance(n, ast.ImportFrom)}
        if found := {n for n in names if n.split(".")[0] in {"boto3", "botocore", "google"}}:
            eager[module] = found
    assert eager == {}
