"""Imports go one way. This cannot see imports by a computed name."""

import ast
from collections.abc import Collection, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tidemill.services import find

ROOT = Path(__file__).resolve().parents[3]

CLOUD_SDKS = ["pulumi_aws", "pulumi_gcp"]
PULUMI = ["pulumi", "pulumi_policy", *CLOUD_SDKS]
# Only tests and benchmarks import these.
TOP = ["benchmarks", "examples", "tests"]
# The programs of stacks put components together.
PROGRAM = ["localcloud", "ops", "plugin", "policy", "tidemill", "worker_image", *TOP]
INFRA = ["bootstrap", "components", "ops", "plugin", "policy", "shared"]

# Of the store and what lies on it.
CALLERS = ["tidemill.cli", "tidemill.client", "tidemill.clouds", "tidemill.services", "tidemill.worker"]
NOT_IN_WORKERS = [
    "tidemill.advice",
    "tidemill.client",
    "tidemill.cli",
    "tidemill.clouds",
    "boto3",
    "botocore",
    "click",
    "rich",
]

# package -> what its modules may not import. Prefixes of dotted names; a rule of an outer package holds for the inner
# ones too.
FORBIDDEN = {
    "tidemill": [
        "bootstrap",
        "components",
        "localcloud",
        "ops",
        "plugin",
        "policy",
        "shared",
        "worker_image",
        *TOP,
        *PULUMI,
    ],
    # Leaves.
    "tidemill.version": ["tidemill"],
    "tidemill.descriptor": ["tidemill"],
    "tidemill.errors": ["tidemill"],
    "tidemill.figures": ["tidemill"],
    "tidemill.fleet": ["tidemill"],
    "tidemill.layout": ["tidemill"],
    "tidemill.completion": ["tidemill"],
    "tidemill.machines": ["tidemill"],
    "tidemill.mountable": ["tidemill"],
    "tidemill.prices": ["tidemill"],
    "tidemill.rooms": ["tidemill"],
    "tidemill.capacity": ["tidemill"],
    "tidemill.planned_fleet": ["tidemill"],
    "tidemill.store": [*CALLERS, "tidemill.ledger"],
    "tidemill.manifest": [*CALLERS, "tidemill.ledger"],
    "tidemill.ledger": CALLERS,
    "tidemill.worker": NOT_IN_WORKERS,
    # The worker's half of a service.
    **{f"tidemill.services.{each}.lease": NOT_IN_WORKERS for each in ("batch", "local", "pubsub")},
    "tidemill.ending": CALLERS,
    "tidemill.advice": ["tidemill.cli", "tidemill.client", "tidemill.ledger", "tidemill.worker"],
    # It judges facts, and reads nothing; the rules of services are as pure.
    "tidemill.explain": [
        "tidemill.clouds",
        "tidemill.cli",
        "tidemill.client",
        "tidemill.ledger",
        "tidemill.store",
        "tidemill.worker",
    ],
    "tidemill.clouds": ["tidemill.cli", "tidemill.client", "tidemill.ledger", "tidemill.services", "tidemill.worker"],
    "tidemill.services": ["tidemill.cli", "tidemill.client", "tidemill.ledger"],
    "tidemill.client": ["tidemill.worker", "tidemill.cli"],
    "components": ["bootstrap", "localcloud", "ops", "plugin", "policy", "shared", "tidemill", "worker_image", *TOP],
    # A stack loads only its own cloud's SDK.
    "components.aws": ["components.gcp", "pulumi_gcp"],
    "components.gcp": ["components.aws", "pulumi_aws"],
    "components.rooms": PULUMI,
    **{f"components.{cloud}.{name}": CLOUD_SDKS for cloud in ("aws", "gcp") for name in ("checks", "keys")},
    **{f"components.services.{each}.{name}": CLOUD_SDKS for each in ("batch", "pubsub") for name in ("checks", "keys")},
    "components.services.batch": ["components.gcp", "components.services.pubsub", "pulumi_gcp"],
    "components.services.pubsub": ["components.aws", "components.services.batch", "pulumi_aws"],
    "components.config": CLOUD_SDKS,
    "plugin": ["localcloud", "ops", "policy", "tidemill", "worker_image", *TOP],
    "policy": ["components", "localcloud", "ops", "plugin", "tidemill", "worker_image", *TOP],
    "ops": ["plugin", "policy", "tidemill", "worker_image", *TOP],
    "ops.first_account": ["plugin", "policy"],
    "__main__": PROGRAM,
    "bootstrap": PROGRAM,
    "shared": PROGRAM,
    "worker_image": ["localcloud", "tidemill", *INFRA, *TOP, *PULUMI],
    "localcloud": ["tidemill", "worker_image", *INFRA, *TOP, *CLOUD_SDKS],
    "examples": ["benchmarks", "components", "plugin", "policy", "tests", *PULUMI],
    # Programs of users, which import what is installed.
    "examples.pulumi": ["localcloud", "ops", "worker_image"],
    "benchmarks": ["bootstrap", "examples", "plugin", "policy", "shared"],
    # Tests run the real programs.
    "tests": ["__main__", "bootstrap", "examples", "shared"],
}
# The leaves and contracts that both halves share.
ALLOWED = {
    "examples.pulumi": PULUMI,
    "components": [
        "tidemill.capacity",
        "tidemill.completion",
        "tidemill.descriptor",
        "tidemill.errors",
        "tidemill.fleet",
        "tidemill.folders",
        "tidemill.layout",
        "tidemill.machines",
        "tidemill.mountable",
        "tidemill.prices",
        "tidemill.services",
    ],
    "ops": [
        "policy.judging",
        "policy.rules",
        "tidemill.advice",
        "tidemill.capacity",
        "tidemill.errors",
        "tidemill.figures",
        "tidemill.folders",
        "tidemill.layout",
        "tidemill.machines",
        "tidemill.planned_fleet",
        "tidemill.prices",
        "tidemill.services",
        "tidemill.visible",
    ],
    "__main__": ["tidemill.errors"],
    # It does the same on an account as the pipeline's users.
    "ops.first_account": ["tidemill"],
    "policy": ["tidemill.capacity", "tidemill.mountable", "tidemill.planned_fleet", "tidemill.prices"],
    "localcloud": ["worker_image.tools"],
    **{f"tidemill.services.{each}.lease": ["tidemill.ledger"] for each in ("batch", "local", "pubsub")},
    "tidemill.descriptor": ["tidemill.layout"],
    "tidemill.machines": ["tidemill.machines"],
    "tidemill.prices": ["tidemill.errors", "tidemill.machines", "tidemill.prices"],
    "tidemill.capacity": ["tidemill.prices", "tidemill.services"],
    "tidemill.planned_fleet": ["tidemill.capacity", "tidemill.machines", "tidemill.prices", "tidemill.services"],
}

# The rooms of the client, from the top floor down. A room imports only rooms of lower floors.
CLIENT_FLOORS = [
    ["pipeline"],
    ["parts"],
    ["templates"],
    ["housekeeping", "sending"],
    ["estimate"],
    ["job"],
    ["results"],
    ["watch"],
    ["rounds", "report"],
    ["plan", "upload"],
    ["items", "program", "health", "secrets"],
    ["arguments", "journal", "keywords", "site", "this_machine"],
]


@cache
def modules() -> dict[str, Path]:
    """Every module of a room with rules, by its dotted name."""
    paths_of = {}
    for room in sorted({name.split(".")[0] for name in FORBIDDEN}):
        paths = sorted((ROOT / room).rglob("*.py")) or [ROOT / f"{room}.py"]
        for path in paths:
            parts = path.relative_to(ROOT).with_suffix("").parts
            paths_of[".".join(part for part in parts if part != "__init__")] = path
    return paths_of


def under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


@cache
def imports(module: str) -> frozenset[str]:
    """Dotted names that a module imports, for types too, relative ones made absolute, at any depth."""
    path = modules()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names.update(f"{origin}.{alias.name}" for alias in node.names)
    return frozenset(names)


def violations(module: str, names: Collection[str]) -> list[str]:
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


def arrows() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports."""
    ours = modules()
    return {module: {of for name in imports(module) if (of := home(name, ours))} - {module} for module in ours}


def home(name: str, ours: Collection[str]) -> str:
    """The module of ours that a dotted name is, or is defined in; otherwise empty."""
    while name and name not in ours:
        name = name.rpartition(".")[0]
    return name


def circle(arrows: Mapping[str, Collection[str]]) -> str:
    """A circle as a path of imports, or nothing."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        # The path goes from the imported module to its importer.
        return " -> ".join(reversed(error.args[1]))
    return ""


def test_imports_go_one_way() -> None:
    wrong = {module: violations(module, imports(module)) for module in modules()}
    assert {module: names for module, names in wrong.items() if names} == {}


def room_of(name: str) -> list[str]:
    """The folder of a service or a cloud that a dotted name is in, and the rest of the name; otherwise nothing."""
    parts = name.split(".")
    return parts[2:] if parts[:2] in (["tidemill", "services"], ["tidemill", "clouds"]) else []


def test_a_record_imports_nothing() -> None:
    ours = {"tidemill.rooms", "tidemill.rooms.Room", "tidemill.rooms.find_record"}
    allowed = {"tidemill", "tidemill.clouds", "tidemill.clouds.Cloud", "tidemill.services", "tidemill.services.Service"}
    records = ["tidemill.clouds", "tidemill.services", *(name for name in modules() if len(room_of(name)) == 1)]
    packages = [name for name in records if modules()[name].name == "__init__.py"]
    allowed |= ours
    wrong = {name: {each for each in imports(name) if under(each, "tidemill")} - allowed for name in packages}
    assert {name: names for name, names in wrong.items() if names} == {}


def test_a_service_is_known_by_its_record_alone() -> None:
    """Not to the platform, and not to other services. A client opens the rest by the record."""
    wrong = {}
    for module in modules():
        own = room_of(module)[:1]
        rooms = ("components", "ops", "policy", "tidemill.services")
        if any(under(module, room) for room in rooms) and not under(module, "ops.first_account"):
            names = {home(name, modules()) for name in imports(module)}
            service = find(own[0]) if own else None
            ours = {*own, *(service.clouds if service else ())}
            others = {name for name in names if len(rest := room_of(name)) > 1 and rest[0] not in ours}
            if others and (service or not own):
                wrong[module] = others
    assert wrong == {}


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert circle(arrows()) == ""


def test_rooms_of_the_client_import_lower_floors() -> None:
    client = "tidemill.client."
    floors = {room: floor for floor, rooms in enumerate(reversed(CLIENT_FLOORS)) for room in rooms}
    wrong = {
        f"{module} -> {name}"
        for module in modules()
        if module.startswith(client)
        for name in imports(module)
        if name.startswith(client)
        and (here := module.split(".")[2]) != (there := name.split(".")[2])
        and floors[there] >= floors[here]
    }
    assert wrong == set()


def test_every_room_has_rules() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/*.py")} | {path.stem for path in ROOT.glob("*.py")}
    assert rooms == {name for name in FORBIDDEN if "." not in name}


def test_the_check_sees_a_wrong_import() -> None:
    assert violations("tidemill.worker.loop", {"tidemill.client.Pipeline"}) == ["tidemill.client.Pipeline"]
    assert violations("localcloud.cloud", {"tidemill.descriptor"}) == ["tidemill.descriptor"]
    assert violations("components.aws.store", {"tidemill.descriptor.Descriptor"}) == []
    assert violations("ops.drift", {"tidemill.client.Job"}) == ["tidemill.client.Job"]
    assert violations("benchmarks.items", {"tests.e2e.team"}) == []
    assert violations("tidemill.store", {"benchmarks.items"}) == ["benchmarks.items"]
    assert violations("components.gcp.store", {"components.aws.key", "pulumi_gcp"}) == ["components.aws.key"]


def test_the_check_sees_a_circle() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == ""
    path = circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    assert path in ("b -> c -> b", "c -> b -> c")


def test_the_worker_and_help_load_no_cloud_sdk() -> None:
    """Boto3 costs a third of a second and is not in a worker's image."""
    eager = {}
    for module, path in modules().items():
        if not under(module, "tidemill"):
            continue
        top = ast.parse(path.read_text()).body
        names = {a.name for n in top if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module or "" for n in top if isinstance(n, ast.ImportFrom)}
        if sdks := {n for n in names if n.split(".")[0] in {"boto3", "botocore", "google"}}:
            eager[module] = sdks
    assert eager == {}
