"""Runs a command where the kernel refuses namespaces and mounts, as it does under Docker's default profile.

    python -m tests.no_namespaces [--user UID] [--without-landlock] COMMAND…

A seccomp filter answers EPERM to the calls that make or enter namespaces or mount, and ENOSYS to clone3, whose flags a
filter cannot read; the C library then calls clone. Every process that the command starts inherits the filter.
With --user the command runs as that user and group, who may read whatever root may, since the interpreter can lie in
root's home, and may write nothing more than others. With --without-landlock the filter refuses Landlock, too.
Other refusals, such as AppArmor's or a sysctl's, refuse fewer calls; that their error is another one is not shown here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

CLONE_NEW = 0x7E020000 | 0x80  # every flag of clone(2) that makes a namespace
REFUSED = {
    "x86_64": (0xC000003E, 56, (165, 155, 272, 308, 428, 429, 430, 432, 442)),
    "aarch64": (0xC00000B7, 220, (40, 41, 97, 268, 428, 429, 430, 432, 442)),
}
"""By machine: the filter's name for it, clone, and mount, pivot_root, unshare, setns, open_tree, move_mount, fsopen,
fsmount, mount_setattr."""
CLONE3, LANDLOCK = 435, 444
LOAD, EQUAL, ANY, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
NUMBER, MACHINE, FIRST_ARGUMENT = 0, 4, 16
PR_SET_KEEPCAPS, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, FILTER = 8, 22, 38, 47, 2
CAPABILITY_VERSION, DAC_READ_SEARCH, RAISE = 0x20080522, 2, 2


libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse(*more: int) -> None:
    """Install the filter for this process and all that it starts; ``more`` calls are refused, too."""
    machine, clone, calls = REFUSED[os.uname().machine]
    lines = [(LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, machine), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    for call in (*calls, *more):
        lines += [(EQUAL, 0, 1, call), (RETURN, 0, 0, ERROR | errno.EPERM)]
    lines += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERROR | errno.ENOSYS)]
    lines += [(EQUAL, 0, 3, clone), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY, 0, 1, CLONE_NEW)]
    lines += [(RETURN, 0, 0, ERROR | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    packed = b"".join(struct.pack("HBBI", *line) for line in lines)
    program = _Program(len(lines), packed)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0))


def check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def become(user: int) -> None:
    """Become this user and group, with one capability left."""
    check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    mask = 1 << DAC_READ_SEARCH
    check(libc.capset(struct.pack("Ii", CAPABILITY_VERSION, 0), struct.pack("6I", mask, mask, mask, 0, 0, 0)))
    check(libc.prctl(PR_CAP_AMBIENT, RAISE, DAC_READ_SEARCH, 0, 0))


def main() -> None:
    """Become the command."""
    words = sys.argv[1:]
    if words[0] == "--user":
        become(int(words[1]))
        words = words[2:]
    without = words[0] == "--without-landlock"
    words = words[without:]
    refuse(*[LANDLOCK] * without)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main()
