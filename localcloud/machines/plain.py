"""Starts one program as a plain process, where the kernel refuses namespaces. localcloud runs it as a script.
It imports only the standard library.

It reads container.py's description and answers as that does, without ``holder``, ``root`` and ``init``. The program has
this machine's root, network and processes. A bind mount is the folder itself: words and variables that begin with its
target begin with its source. Other mounts are left out, and so is ``readonly``.

When the program ends, everything that it started ends too: orphans come to this process. SIGUSR1 ends all at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILLED = 128 + signal.SIGKILL

libc = ctypes.CDLL(None, use_errno=True)


def placed(text: str, binds: dict[str, str]) -> str:
    """Return a word with the folder that stands for the mount that it begins with."""
    for target in sorted(binds, key=len, reverse=True):
        if text == target or text.startswith(f"{target}/"):
            return binds[target] + text[len(target) :]
    return text


def run_program(description: dict) -> None:
    """Become the program."""
    binds = {each["target"]: each["source"] for each in description["mounts"] if each["kind"] == "bind"}
    for name, soft, hard in description.get("limits", []):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))
    os.setsid()
    os.chdir(placed(description.get("cwd", "/"), binds))
    argv = [placed(word, binds) for word in description["argv"]]
    os.execvpe(argv[0], argv, {name: placed(value, binds) for name, value in description["env"].items()})


def children() -> list[int]:
    """Return the processes whose parent is this one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def end_all() -> None:
    """Kill every process below this one; the children of one that ended become this one's."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.wait()


def end_now() -> None:
    end_all()
    os._exit(KILLED)


def main() -> None:
    """Read the description, start the program, forward SIGTERM to it and end as it ends."""
    parent = os.getppid()
    signal.signal(signal.SIGUSR1, lambda *_: end_now())
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    description = json.load(sys.stdin)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    status = description["status"]
    os.set_inheritable(status, False)
    program = os.fork()
    if program == 0:
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            run_program(description)
        except (OSError, ValueError) as error:
            os.write(status, f"{description['argv'][0]}: {error}".encode())
            os._exit(125)
    os.close(status)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: os.kill(program, n))
    if os.getppid() != parent:
        end_now()  # it ended before it could be told
    while True:
        ended, code = os.wait()
        if ended == program:
            end_all()
            os._exit(os.waitstatus_to_exitcode(code) if os.WIFEXITED(code) else 128 + os.WTERMSIG(code))


if __name__ == "__main__":
    main()
