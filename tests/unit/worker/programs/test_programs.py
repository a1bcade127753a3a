"""Where programs of items are found."""

import pytest

from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.programs import Programs


def test_a_program_that_moves_between_two_items_is_found_again(tmp_path):
    programs = Programs(Stop())
    env = {"PATH": f"{tmp_path}/first:{tmp_path}/second"}

    def exit_code(folder: str, code: int) -> int:
        path = tmp_path / folder / "program"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\nexit {code}\n")
        path.chmod(0o755)
        child = programs.start(["program"], cwd=tmp_path, env=env, stdout=2, stderr=2)
        return child.wait(30)

    assert exit_code("first", 3) == 3
    (tmp_path / "first" / "program").unlink()
    assert exit_code("second", 4) == 4
    (tmp_path / "second" / "program").unlink()
    with pytest.raises(FileNotFoundError) as error:
        programs.start(["program"], cwd=tmp_path, env=env, stdout=2, stderr=2)
    assert error.value.filename == "program"
