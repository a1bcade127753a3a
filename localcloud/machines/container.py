"""Starts one program as if in a container. localcloud runs it as a script; it imports only the standard library.

It reads a JSON description from stdin:

- ``holder``: the process whose user and network namespaces the program enters (a machine's).
- ``root``: an empty folder on which the new root is built; ``disk``: a folder to be the root, by default memory.
- ``mounts``: the parts of the root, in order (see ``mount_all``); ``readonly``: for the root itself.
- ``argv``, ``env``, ``cwd``, ``limits`` (name, soft, hard), ``init``: of the program, which is process 1 of a PID
  namespace: when it ends, everything that it started ends too.

Descriptor ``status`` receives a failure before the program runs, and is closed once the program has started.
The exit code is the program's, or 128 plus the number of the signal that ended it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import stat
import sys

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000,
)  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_UNBINDABLE, MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 17, 1 << 18
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
"""Docker's default set, by number: https://github.com/moby/moby/blob/master/daemon/pkg/oci/caps/defaults.go"""
KERNELS = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""What Docker shows read-only of /proc: https://github.com/moby/moby/blob/master/daemon/pkg/oci/defaults.go"""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raise the error of a failed system call."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None)
    check(libc.mount(*arguments), f"mount {source} on {target}")


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def freeze(target: str) -> None:
    """Make a mount and everything below it read-only."""
    wanted = _MountAttributes(MOUNT_ATTR_RDONLY, 0, 0, 0)
    arguments = (AT_FDCWD, target.encode(), AT_RECURSIVE, ctypes.byref(wanted), ctypes.sizeof(wanted))
    check(libc.syscall(SYS_MOUNT_SETATTR, *arguments), f"read-only {target}")


def enter(holder: int) -> None:
    """Enter a machine's user and network namespaces, and create new ones of every other kind."""
    for kind in ("user", "net"):
        descriptor = os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY)
        check(libc.setns(descriptor, 0), f"enter the {kind} namespace")
        os.close(descriptor)
    own_user_namespace(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)


def own_user_namespace(kinds: int) -> None:
    """Create a user namespace in which the caller is root, and namespaces of these kinds in it."""
    user, group = os.geteuid(), os.getegid()
    check(libc.unshare(CLONE_NEWUSER | kinds), "unshare")
    for name, content in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)


def bind(source: str, target: str, readonly: bool) -> None:
    """Show a file or folder at another place, with everything mounted below it."""
    mount(source, target, flags=MS_BIND | MS_REC)
    if readonly:
        freeze(target)


def mirror(source: str, target: str, skip: list[str], only: list[str] | None = None) -> None:
    """Fill a writable folder with read-only views of the entries of another folder."""
    for entry in os.scandir(source):
        there = os.path.join(target, entry.name)
        if entry.name in skip or (only is not None and entry.name not in only):
            continue
        mode, exists = entry.stat(follow_symlinks=False).st_mode, os.path.lexists(there)
        if exists and (only is None or not stat.S_ISDIR(mode)):
            continue  # an earlier program made this requested folder on the disk
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(entry.path), there)
        elif stat.S_ISDIR(mode):
            os.makedirs(there, exist_ok=True)
            bind(entry.path, there, True)
        elif stat.S_ISREG(mode):
            os.close(os.open(there, os.O_CREAT))
            bind(entry.path, there, True)


def place(root: str, path: str, folder: bool = True) -> str:
    """Return the path inside the root, and create it if it is missing.

    Folders of the image are read-only. One that needs a new entry is replaced by a mirror of itself in memory.
    """
    here = root
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts):
        below = os.path.join(here, part)
        if os.path.islink(below):
            link = os.readlink(below)
            below = root + link if link.startswith("/") else os.path.normpath(os.path.join(here, link))
        if not os.path.lexists(below):
            last_file = number == len(parts) - 1 and not folder
            try:
                _make(below, last_file)
            except OSError:
                original = os.open(here, os.O_PATH | os.O_DIRECTORY)
                mount("tmpfs", here, "tmpfs", 0, "mode=755")
                mirror(f"/proc/self/fd/{original}", here, [])
                os.close(original)
                _make(below, last_file)
        here = below
    return here


def _make(path: str, file: bool) -> None:
    if file:
        os.close(os.open(path, os.O_CREAT))
    else:
        os.mkdir(path)


def mount_all(root: str, mounts: list[dict]) -> None:
    """Carry out the mounts: image, bind, tmpfs, mask (hide a folder), devices, proc."""
    for each in mounts:
        kind, target = each["kind"], each.get("target", "/")
        if kind == "image":
            mirror(each["source"], root, each.get("skip", []), each.get("only"))
        elif kind == "bind":
            inside = place(root, target, os.path.isdir(each["source"]))
            bind(each["source"], inside, each["readonly"])
        elif kind == "tmpfs":
            mount("tmpfs", place(root, target), "tmpfs", MS_NOSUID, each["options"])
        elif kind == "mask":
            if os.path.isdir(root + target) and not os.path.islink(root + target):
                mount("tmpfs", root + target, "tmpfs", MS_RDONLY, "size=4k,mode=755")
        elif kind == "devices":
            make_devices(place(root, "/dev"))
        elif kind == "proc":
            make_proc(place(root, "/proc"))


def make_devices(target: str) -> None:
    """Create a container's /dev: the harmless devices, and links to the process's own descriptors."""
    mount("tmpfs", target, "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for name in DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{target}/{name}", os.O_CREAT))
            mount(f"/dev/{name}", f"{target}/{name}", flags=MS_BIND)
    for name, there in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{there}", f"{target}/{name}")


def make_proc(target: str) -> None:
    """Mount /proc of the new PID namespace. Where a sandbox forbids it, the existing one stays visible."""
    try:
        mount("proc", target, "proc", MS_NOSUID)
    except PermissionError:
        mount("/proc", target, flags=MS_BIND | MS_REC)
    for path in (os.path.join(target, name) for name in KERNELS):
        if os.path.exists(path):
            bind(path, path, True)


def change_root(description: dict) -> None:
    """Build the new root and make it /."""
    root = description["root"]
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    if disk := description.get("disk"):
        mount(disk, root, flags=MS_BIND)
    else:
        mount("tmpfs", root, "tmpfs", 0, "mode=755")
    mount("none", root, flags=MS_UNBINDABLE)
    mount_all(root, description["mounts"])
    if description.get("readonly"):
        mount("none", root, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
    os.chdir(root)
    if libc.syscall(SYS_PIVOT_ROOT.get(os.uname().machine, -1), b".", b".") == 0:
        check(libc.umount2(b".", 2), "leave the old root")
    else:
        os.chroot(".")
    os.chdir("/")


def run_program(description: dict) -> None:
    """Become the program; without ``init`` the program is process 1, as in Docker."""
    if description.get("init") and (program := os.fork()):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda n, _: os.kill(program, n))
        os.close(description["status"])
        os._exit(wait_for(program))
    for name, soft, hard in description.get("limits", []):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))
    for capability in set(range(64)) - CAPABILITIES:
        libc.prctl(PR_CAPBSET_DROP, capability)  # otherwise root in a user namespace could undo what is read-only
    os.setsid()
    os.chdir(description.get("cwd", "/"))
    os.execvpe(description["argv"][0], description["argv"], description["env"])


def wait_for(process: int) -> int:
    """Reap children until this one has ended, and return its exit code as a shell would."""
    while True:
        ended, status = os.wait()
        if ended == process:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def main() -> None:
    """Read the description, start the program, forward SIGTERM to it and end as it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    description = json.load(sys.stdin)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    status = description["status"]
    os.set_inheritable(status, False)
    try:
        enter(description["holder"])
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        program = os.fork()
        if program == 0:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            change_root(description)
            run_program(description)
    except OSError as error:
        os.write(status, str(error).encode())
        os._exit(125)
    os.close(status)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: os.kill(program, n))
    os._exit(wait_for(program))


if __name__ == "__main__":
    main()
