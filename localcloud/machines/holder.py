"""Holds one emulated machine's user and network namespaces. Run as a script; its arguments are addresses, `host:port`.

It brings the loopback device up with the link-local addresses among them (such as a metadata server's), opens listening
sockets there, hands them to localcloud over the socket that is its stdin, and waits for that socket's end.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import container  # this script's own folder is on its path: it does not import localcloud's packages

CLONE_NEWNET = 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8914, 1


def configure_loopback(hosts: list[str]) -> None:
    """Bring lo up with these addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        for number, address in enumerate(hosts, 1):
            packed = struct.pack("16sH2s4s8x", f"lo:{number}".encode(), socket.AF_INET, b"", socket.inet_aton(address))
            fcntl.ioctl(control, SIOCSIFADDR, packed)


def main() -> None:
    """Create the namespaces, hand over the sockets, and wait."""
    container.own_user_namespace(CLONE_NEWNET)
    container.libc.prctl(container.PR_SET_PDEATHSIG, signal.SIGKILL)
    addresses = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in sys.argv[1:])]
    configure_loopback([host for host, _ in addresses if not host.startswith("127.")])
    sockets = [socket.create_server(address, backlog=128) for address in addresses]
    with socket.socket(fileno=os.dup(0)) as channel:
        socket.send_fds(channel, [b"ready"], [each.fileno() for each in sockets])
        for each in sockets:
            each.close()
        channel.recv(1)


if __name__ == "__main__":
    main()
