"""Faults of file systems that hosts share: a server that does not answer any more."""

from __future__ import annotations

from tests.lab.faults import together
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
if libc.mount(source.encode(), place.encode(), b"fuse", 0, options.encode()):
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
SILENT = f"{MOUNTS}\nimport time\nwhile True: time.sleep(9)\n"


def stalled_folder(name: str, server: str, *hosts: int) -> Fault:
    """On the hosts the variable names a folder of ``server``'s file system, which does not answer."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].inside(f"mkdir {MOUNTED}")
            launch.cluster[index].python(SILENT, f"{server}:/export", MOUNTED, wait_for="ready")

    return together(inject, variable(name, f"{MOUNTED}/cache", *hosts))


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


def server_answers(launch: Launch) -> None:
    """The file system of :func:`stalled_folder` is there again."""
    for host in launch.cluster:
        host.inside(f"umount -l {MOUNTED} || true")
