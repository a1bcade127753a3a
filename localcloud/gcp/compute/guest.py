"""Stands in for a program on an emulated machine. It runs as a script under that program's name; standard library only.

`curl` is this machine's own, with Google's addresses replaced by localcloud's. All other names are handed to
localcloud over /run/localcloud.sock with this process's output, signals and environment; its answer is the exit code.
"""

import json
import os
import signal
import socket
import sys


def curl(argv: list[str]) -> None:
    """Become curl, with Google's addresses replaced."""
    with open(os.path.join(os.path.dirname(sys.argv[0]), "addresses.json")) as file:
        addresses = json.load(file)
    if "GCE_METADATA_HOST" in os.environ:
        addresses["http://metadata.google.internal"] = "http://" + os.environ["GCE_METADATA_HOST"]
    for there, here in addresses.items():
        argv = [here + word[len(there) :] if word.startswith(there) else word for word in argv]
    os.execv("/usr/bin/curl", ["curl", *argv])


def main() -> None:
    """Hand over the call, pass signals on, and exit with the code that comes back."""
    name, argv = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name == "curl":
        curl(argv)
    call = {"name": name, "argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(os.environ.get("LOCALCLOUD_DISK", "") + "/run/localcloud.sock")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda n, _: channel.sendall(json.dumps({"signal": n}).encode() + b"\n"))
        socket.send_fds(channel, [b"\n"], [1, 2])
        channel.sendall(json.dumps(call).encode() + b"\n")
        with channel.makefile("rb") as answers:
            answer = answers.readline()
    sys.exit(json.loads(answer)["exit"] if answer else 125)


main()
