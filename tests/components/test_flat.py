"""The flat program, the baseline of the preview benchmark: without components, and otherwise the same."""

from __future__ import annotations

from benchmarks import flat, preview
from tests.components.recording import run_with
from tests.components.stacks import run_program


def test_a_flat_program_makes_the_same_resources_with_the_same_inputs():
    config = preview.config(2)
    ours = [made for made in run_program(config, recorder=flat.Marker()).resources if made.type.startswith("aws:")]
    program = compile(flat.write(ours), "flat", "exec")
    recorder = run_with(flat.Marker(), lambda: exec(program, {}), config={"aws:region": "us-west-2"})
    assert {made.name for made in recorder.resources if len(made.chain) > 1} == set()
    found = {(made.type, made.name): made.inputs for made in recorder.resources}
    assert found == {(made.type, made.name): made.inputs for made in ours}
    assert len(found) > 40
