"""What leaves out a check notices each change of what the check reads."""

from pathlib import Path

import pytest

from tests import unchanged

FILES = {
    "requirements.txt": "",
    "pyproject.toml": "",
    "tests/conftest.py": "",
    "tests/unchanged.py": "",
    "tests/localcloud/test_a.py": "from product import inner\nimport_module(f'lazy.{name}')\nSTART = 'started.main'\n",
    "product/__init__.py": "",
    "product/inner.py": "import product.deep\n",
    "product/deep.py": "",
    "product/data.json": "{}",
    "product/other.py": "",
    "lazy/__init__.py": "",
    "lazy/one.py": "",
    "started/main.py": "",
    "localcloud/server.go": "",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(unchanged, "ROOT", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def key(project: Path) -> str:
    for kept in (unchanged._content, unchanged._imported, unchanged._files, unchanged._data):
        kept.cache_clear()
    return unchanged.key([project / "tests/localcloud/test_a.py", project / "localcloud"])


@pytest.mark.parametrize("name", FILES)
def test_a_change_of_what_is_read_runs_the_check_again(project: Path, name: str) -> None:
    before = key(project)
    (project / name).write_text(FILES[name] + "\n")
    assert (key(project) == before) == (name == "product/other.py")


def test_only_what_passed_is_left_out(project: Path) -> None:
    assert not unchanged.passed("a")
    unchanged.record("a")
    assert unchanged.passed("a")
    assert not unchanged.passed("b")
