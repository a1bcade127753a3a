"""The picture of the rooms in docs/architecture.md is what the code is. It cannot see imports by a computed name."""

import re

from tests.unit.repository.test_arrows import ROOT, arrows

PROGRAMS = ("bootstrap", "plugin", "shared")
PLATFORM = ("components", "localcloud", "ops", "policy", "worker_image")


def picture() -> tuple[set[str], set[tuple[str, str]]]:
    """The boxes of the picture and its arrows."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    drawn = re.findall(r'^ +(\w+) (?:-- "[^"]+" )?--> (\w+)$', text, re.MULTILINE)
    return set(re.findall(r'^ +(\w+)\["', text, re.MULTILINE)), set(drawn)


def box(module: str, boxes: set[str]) -> str:
    """The box that a module is in; empty for the first page of `tidemill` and what is in none."""
    first, _, rest = module.partition(".")
    if first == "tidemill":
        room = rest.partition(".")[0]
        return room if room in boxes else "leaves" if rest else ""
    return "programs" if first in PROGRAMS else first if first in PLATFORM else ""


def imported() -> set[tuple[str, str]]:
    """The imports between boxes."""
    boxes, _ = picture()
    pairs = {(box(a, boxes), box(b, boxes)) for a, others in arrows().items() for b in others}
    return {(a, b) for a, b in pairs if a and b and a != b}


def test_every_arrow_is_an_import() -> None:
    assert picture()[1] - imported() == set()


def test_every_import_has_an_arrow_or_goes_along_arrows() -> None:
    """Imports of a leaf's are left out: a leaf is one for most of its modules."""
    drawn = picture()[1]
    reached = {(a, b) for a, b in drawn}
    while more := {(a, d) for a, b in reached for c, d in drawn if b == c} - reached:
        reached |= more
    assert {(a, b) for a, b in imported() if a != "leaves"} - reached == set()


def test_every_room_is_in_the_picture() -> None:
    boxes, _ = picture()
    assert {*PLATFORM, "programs", "leaves"} <= boxes
    assert boxes - {*PLATFORM, "programs", "leaves"} == {
        name for name in boxes if (ROOT / "tidemill" / name / "__init__.py").is_file()
    }
