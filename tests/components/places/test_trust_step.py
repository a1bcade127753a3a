"""The step of a machine on GCP that trusts a company's authorities, in a real bash. A hard link stands in for the bind
mount: with either, two paths are one file. That Container-Optimized OS lets its file be covered is assumed."""

from __future__ import annotations

from pathlib import Path

from tests.components.test_local_disks import Machine

STEP = Path(__file__).parents[3] / "components/services/pubsub/host/outbound.sh"


def test_a_second_attempt_keeps_the_public_certificates(tmp_path):
    """`run.sh` repeats a step that failed, here because Docker did not restart."""
    public, own = tmp_path / "etc/ssl/certs/ca-certificates.crt", tmp_path / "etc/tidemill/certificates.pem"
    for path, text in ((public, "public\n"), (own, "own\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    machine = Machine(tmp_path / "machine")
    machine.tool("mkdir", '/usr/bin/mkdir "$@"')
    machine.tool("mount", 'ln -f "$2" "$3"')
    machine.tool("systemctl", f'[ "$1" = restart ] && mkdir {tmp_path}/tried 2>/dev/null && exit 1; exit 0')
    step = tmp_path / "outbound.sh"
    step.write_text(STEP.read_text().replace("=/etc/", f"={tmp_path}/etc/").replace("=/var/", f"={tmp_path}/var/"))

    assert [machine.run(step) for _ in range(2)] == [1, 0]
    assert public.read_text().splitlines()[:2] == ["public", "own"]
    assert public.samefile(tmp_path / "var/lib/tidemill/trust/certificates.pem")
