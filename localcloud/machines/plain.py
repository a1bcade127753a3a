"""Starts one program as a plain process, where the kernel refuses namespaces. localcloud runs it as a script.
It imports only the standard library.

It reads container.py's description and answers as that does, without ``holder``, ``root`` and ``init``. The program has
this machine's root, network and processes. A bind mount is the folder itself: words and variables that begin with its
target begin with its source. Other mounts are left out, and so is ``readonly``.

The program may write to its disk, to the sources of its mounts and to SHARED, and signal only what it started itself.
Root keeps two capabilities. Landlock does this, without which a program of root does not start and others may write
wherever their user may: https://docs.kernel.org/userspace-api/landlock.html

When the program ends, everything that it started ends too: orphans come to this process. SIGUSR1 ends all at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import stat
import struct
import sys

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
KILLED = 128 + signal.SIGKILL
KEPT = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: the interpreter and the disk may lie in the home of another user."""
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION, SIGNALS_SINCE = 3, 6
"""Of Landlock: what is needed (Linux 6.2), and what can keep signals in, too (Linux 6.12)."""
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
WRITE = 0x7FF2
"""WRITE_FILE, TRUNCATE, and what makes, moves and removes files of all kinds."""
SCOPE_SIGNAL = 1 << 1
BENEATH_PATH = 1
SHARED = (
    "/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/dev/ptmx", "/dev/tty", "/dev/null", "/dev/zero", "/dev/full",
    "/dev/random", "/dev/urandom", "/proc/self/fd/1",
)  # fmt: skip
"""What every program may write to; the last one is its output."""

libc = ctypes.CDLL(None, use_errno=True)


def placed(text: str, binds: dict[str, str]) -> str:
    """Return a word with the folder that stands for the mount that it begins with."""
    for target in sorted(binds, key=len, reverse=True):
        if text == target or text.startswith(f"{target}/"):
            return binds[target] + text[len(target) :]
    return text


def landlock() -> int:
    """Return the version of the kernel's Landlock, or -1 if there is none."""
    return libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)


def confine(places: list[str]) -> None:
    """Let this process and what it starts write to these files and folders only. What is missing is left out.

    Raises:
        OSError: The kernel cannot do this, and the process is root's.
    """
    if os.geteuid() == 0:
        for capability in range(64):
            if capability not in KEPT:
                libc.prctl(PR_CAPBSET_DROP, capability)
    version = landlock()
    if version < VERSION:
        if os.geteuid() == 0:
            raise OSError("a plain process of root needs Landlock, as of Linux 6.2")
        return
    attributes = struct.pack("QQQ", WRITE, 0, SCOPE_SIGNAL if version >= SIGNALS_SINCE else 0)
    rules = check(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    for path in places:
        with contextlib.suppress(FileNotFoundError):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            mode = os.fstat(place).st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISCHR(mode):  # a pipe needs no rule
                rule = struct.pack("=Qi", WRITE if stat.S_ISDIR(mode) else WRITE_FILE | TRUNCATE, place)
                check(libc.syscall(ADD_RULE, rules, BENEATH_PATH, rule, 0))
            os.close(place)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(libc.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def run_program(description: dict) -> None:
    mounts = [each for each in description["mounts"] if each["kind"] == "bind"]
    binds = {each["target"]: each["source"] for each in mounts}
    own = [each["source"] for each in mounts if not each["readonly"]]
    for name, soft, hard in description.get("limits", []):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))
    os.setsid()
    os.chdir(placed(description.get("cwd", "/"), binds))
    confine([*own, *([description["disk"]] if "disk" in description else []), *SHARED])
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
