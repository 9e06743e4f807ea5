"""Faults of file systems that hosts share: a server that does not answer any more."""

from __future__ import annotations

from tests.lab.faults import inside, together
from tests.lab.faults.launch import variable
from tests.lab.harness.host import PRIVATE
from tests.lab.harness.launch import Fault, Launch

MOUNTED = f"{PRIVATE}/mounted"
"""Where a host has the file system of a server."""
MOUNTS = """
import ctypes, os, sys
source, place = sys.argv[1:3]
fd = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other"
kind = sys.argv[3] if len(sys.argv) > 3 else "fuse"
if libc.mount(source.encode(), place.encode(), kind.encode(), 0, options.encode()):
    raise OSError(ctypes.get_errno(), place)
print("ready", flush=True)
"""
"""Mounts a file system (fuse(4)) whose requests come to this process."""
WITHOUT_LOCKS = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
int flock(int fd, int how) {{
    int (*real)(int, int) = dlsym(RTLD_NEXT, "flock");
    struct stat file, place;
    if (fstat(fd, &file) || stat("{MOUNTED}", &place) || file.st_dev != place.st_dev) return real(fd, how);
    errno = ENOLCK;
    return -1;
}}
"""
"""flock() as on NFS whose lock daemon does not run, for one file system; the others have locks."""
ANSWERS = f"""{MOUNTS}
import errno, stat, struct
def attributes(node):
    mode = stat.S_IFDIR | 0o1777 if node == 1 else stat.S_IFREG | 0o600
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
opened = struct.pack("<Q2I", 1, 0, 0)
made = struct.pack("<4Q2I", 2, 0, 60, 0, 0, 0) + attributes(2) + opened  # known by this name for a minute
room = struct.pack("<5Q10I", *[1 << 20] * 5, 4096, 255, 4096, *[0] * 7)
described = lambda node, request: struct.pack("<Q2I", 0, 0, 0) + attributes(node)
REPLIES = {{
    26: lambda node, request: struct.pack("<4I2HI", 7, 19, 1 << 16, 0, 12, 9, 1 << 16),  # INIT
    3: described, 4: described,  # GETATTR, SETATTR
    35: lambda node, request: made,  # CREATE
    16: lambda node, request: struct.pack("<2I", struct.unpack_from("<I", request, 56)[0], 0),  # WRITE
    17: lambda node, request: room,  # STATFS
    27: lambda node, request: opened,  # OPENDIR
    **dict.fromkeys((10, 18, 20, 25, 28, 29, 34), lambda node, request: b""),  # UNLINK, RELEASE, FSYNC, FLUSH, ...
}}
refused = {{1: errno.ENOENT}}  # LOOKUP
if len(sys.argv) > 4:
    REPLIES.pop(16)
    refused[16] = getattr(errno, sys.argv[4])
while True:
    request = os.read(fd, 1 << 18)
    _, what, unique, node = struct.unpack_from("<2I2Q", request)
    if what not in (2, 42):  # FORGET, BATCH_FORGET
        reply = REPLIES.get(what, lambda node, request: None)(node, request)
        error = 0 if reply is not None else -refused.get(what, errno.ENOSYS)
        os.write(fd, struct.pack("<IiQ", 16 + len(reply or b""), error, unique) + (reply or b""))
"""
"""Answers as a server whose folder is empty and takes what is written, or says why not (include/uapi/linux/fuse.h)."""
SILENT = f"{MOUNTS}\nimport time\nwhile True: time.sleep(9)\n"


def stalled_folder(name: str, server: str, *hosts: int) -> Fault:
    """On the hosts the variable names a folder of ``server``'s file system, which does not answer."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].inside(f"mkdir {MOUNTED}")
            launch.cluster[index].python(SILENT, f"{server}:/export", MOUNTED, wait_for="ready")

    return together(inject, variable(name, f"{MOUNTED}/cache", *hosts))


def folder_of_server(name: str, source: str, *hosts: int, refuses: str = "") -> Fault:
    """On the hosts, the variable names a folder that all of them have from one server, over sshfs for example;
    ``refuses``: the errno's name that it answers to what is written, as ``EDQUOT`` where a quota is used up."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            told = (source, MOUNTED, "fuse.sshfs", *([refuses] if refuses else []))
            launch.cluster[index].inside(f"mkdir {MOUNTED}")
            launch.cluster[index].python(ANSWERS, *told, wait_for="ready")

    return together(inject, variable(name, MOUNTED, *hosts))


def folder_without_locks(name: str, *hosts: int) -> Fault:
    """On the hosts the variable names a folder of a file system whose files cannot be locked."""
    library = f"{PRIVATE}/lab/without-locks.so"

    def inject(launch: Launch) -> None:
        for index in hosts:
            host = launch.cluster[index]
            host.anchor.path(f"{PRIVATE}/lab/without-locks.c").write_text(WITHOUT_LOCKS)
            host.inside(f"mkdir {MOUNTED}; mount -t tmpfs -o mode=1777 lab {MOUNTED}")
            host.inside(f"cc -shared -fPIC {PRIVATE}/lab/without-locks.c -o {library}")

    return together(inject, variable("LD_PRELOAD", library, *hosts), variable(name, MOUNTED, *hosts))


def other_machines(*hosts: int) -> Fault:
    """The hosts are machines of their own, each with a boot id that is its own."""
    path = "/proc/sys/kernel/random/boot_id"
    own = f"{PRIVATE}/lab/boot-id"
    made = "echo 00000000-0000-4000-8000-{:012d} > " + own + f"; mount --bind {own} {path}"
    return together(*(inside(index, made.format(index + 1)) for index in hosts))


def server_answers(launch: Launch) -> None:
    """The file system of :func:`stalled_folder` is there again."""
    for host in launch.cluster:
        host.inside(f"umount -l {MOUNTED} || true")
