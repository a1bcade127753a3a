"""Lets `tests.warm` run a command of this interpreter, and stands in for it: its signals, its end, its exit code.

Started as `python -IS warm_client.py SOCKET ARGUMENTS…`, with no import but those that are built in.
"""

import _socket
import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FDS = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))


def main() -> None:
    """Ask for a fork, and wait for its end."""
    early: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda number, _: early.append(number))
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(sys.argv[1])
    environment = [f"{name}={value}" for name, value in os.environ.items()]
    parts = [os.getcwd(), str(len(sys.argv) - 2), *sys.argv[2:], *environment]
    request = os.fsencode("\0".join(parts))
    server.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, FDS)])
    server.sendall(request)
    pid = int.from_bytes(server.recv(4), "big")

    def forward(number: int, _: object) -> None:
        # The fork may have ended a moment ago, and its exit code be on its way.
        try:  # noqa: SIM105 (contextlib is an import)
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    if pid:
        for number in SIGNALS:
            signal.signal(number, forward)
        if early:
            # It has begun nothing that it would end by itself.
            forward(signal.SIGTERM, None)
    status = server.recv(4)
    code = os.waitstatus_to_exitcode(int.from_bytes(status, "big")) if status else 1
    os._exit(code if code >= 0 else 128 - code)


main()
