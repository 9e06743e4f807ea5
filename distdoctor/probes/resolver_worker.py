"""Worker for calls that may never return: started as a script, with nothing but the standard library.

A look-up of a name has no deadline, and its caller cannot give it up: getnameinfo() of Python 3.10 and of 3.11 up to
3.11.3 even holds the interpreter's lock while it waits for a name server, and so stops every thread. A file system
whose server is gone blocks every process that looks at it. Here each question gets a forked child of its own, which a
timer of the kernel ends.

Questions arrive over a SOCK_SEQPACKET socket whose number is the only argument, one JSON object a message, each with a
descriptor on which its child answers:

    in   {"what": a key of QUESTIONS, "of": TEXT, "seconds": NUMBER, "hurry": false | true}
    out  {} as the question begins, then
         {"found": [TEXT...], "seconds": NUMBER}   or   {"error": TEXT, "seconds": NUMBER}   or nothing: it was ended

The seconds are those of the question alone, without the time until it had a child, and in which that was ready to run
while others had the processors.

A child that leaves a file (HELD) stays when it has answered, and removes the file when its own socket closes, or at
SIGTERM. When the control socket closes, the other children are killed and the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress

MAX_MESSAGE = 1 << 16
BEGUN = b"{}"
"""Message at which the question itself begins, after the wait for a processor."""
MARK, MARK_BYTES, MAX_NAME = ".distdoctor-", 16, 256
TRIES, AGAIN_SECONDS = 3, 0.25
LEAVING_SECONDS = 0.3
"""Limit of removing files at the end."""
HURRIED = "timeout:1 attempts:1"
"""RES_OPTIONS (resolv.conf(5)) for one query to each name server, and one second for its answer."""


def addresses(name: str) -> list[str]:
    """Return getaddrinfo() as gloo and the TCPStore call it: any family, stream sockets, addresses in order.

    A link-local one keeps its zone (``fe80::a%eth0``): without it no connection is possible.
    """
    rows = socket.getaddrinfo(name, None, socket.AF_UNSPEC, socket.SOCK_STREAM)
    return list(dict.fromkeys(_written(row[4]) for row in rows))


def of_store(name: str) -> list[str]:
    """Return the addresses as the TCPStore's client asks for them, which takes IPv4 addresses as IPv6 ones, too
    (socket.cpp, ``AI_V4MAPPED | AI_ALL``): glibc then reads ``::1 localhost`` in /etc/hosts as 127.0.0.1 as well, which
    works without IPv6."""
    resolved = addresses(name)
    if resolved != ["::1"]:
        return resolved
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::1", 0))
    except OSError:
        with suppress(OSError):
            rows = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
            return [*(str(row[4][0]) for row in rows), *resolved]
    return resolved


def _written(where: tuple[object, ...]) -> str:
    address, zone = str(where[0]).partition("%")[0], where[3] if len(where) > 3 else 0
    return f"{address}%{socket.if_indextoname(int(str(zone)))}" if zone else address


def name(address: str) -> list[str]:
    """Return the name of ``address``, as a TCPStore's client asks for it."""
    # c10d asks for the address of its dual-stack socket (socket.cpp, formatSockAddr), so IPv4 is mapped into IPv6.
    asked = address if ":" in address else f"::ffff:{address}"
    return [socket.getnameinfo((asked, 0), socket.NI_NAMEREQD)[0]]


def announced(hostname: str) -> list[str]:
    """Return torchrun's name of this host (getfqdn(), as its c10d rendezvous does), then the addresses of that name."""
    called = socket.getfqdn(hostname)
    try:
        return [called, *addresses(called)]
    except (OSError, UnicodeError):
        return [called]


def folder(path: str) -> list[str]:
    """Write a file in ``path``. Return the errno's name or nothing, then free bytes and files of its disk, and whether
    nothing on it can be run. For a missing path: whether it could be created, then the nearest existing path, and the
    target if that is a link to nothing.

    A whole block is written and synced: a quota, or a server, refuses only then.
    """
    near, said = _nearest(path)
    leads = os.readlink(near) if said == "EEXIST" and os.path.islink(near) else ""
    try:
        disk = os.statvfs(os.path.dirname(near) if leads else near)
    except OSError as err:  # of a mount whose server is gone
        return [said or errno.errorcode.get(err.errno or 0, ""), "0", "-1", "", near, ""]
    numbers = [str(disk.f_bavail * disk.f_frsize), str(disk.f_favail if disk.f_files else -1)]
    noexec = "noexec" if disk.f_flag & os.ST_NOEXEC else ""
    if near != path or said:
        said = "EROFS" if said == "EACCES" and disk.f_flag & os.ST_RDONLY else said
        return [said, *numbers, noexec, near, leads]
    try:
        descriptor = _new_file(path)
        try:
            os.write(descriptor, bytes(4096))
            os.fsync(descriptor)
            said = ""
        finally:
            os.close(descriptor)
    except OSError as err:
        said = errno.errorcode.get(err.errno or 0, "")
    return [said, *numbers, noexec, "", ""]


def _nearest(path: str) -> tuple[str, str]:
    """Return ``path`` or the nearest existing one above it, and the error of os.makedirs(), if it would fail."""
    place = path
    while True:
        try:
            folder = stat.S_ISDIR(os.stat(place).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(place):  # to nothing
                return place, "EEXIST"
            place = os.path.dirname(place)
            continue
        except OSError as err:
            return place, errno.errorcode.get(err.errno or 0, "")
        if not folder:
            return place, "EEXIST" if place == path else "ENOTDIR"
        return place, "" if place == path or os.access(place, os.W_OK | os.X_OK) else "EACCES"


def lock(path: str) -> list[str]:
    """Lock a file in ``path`` with flock(), as c10d's FileStore does. Return the errno's name or nothing."""
    descriptor = _new_file(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        return [errno.errorcode.get(err.errno or 0, "")]
    finally:
        os.close(descriptor)
    return []


def mark(path: str) -> list[str]:
    """Leave a file in the folder ``path`` for others to see. Return the errno's name or nothing, then the file's
    name."""
    name = f"{MARK}{os.urandom(MARK_BYTES).hex()}"
    full = os.path.join(path, name)

    def remove(*_: object) -> None:
        with suppress(OSError):
            os.unlink(full)
        if _:
            os._exit(0)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, remove)
    try:
        descriptor = os.open(full, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            os.write(descriptor, name.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as err:
        remove()
        return [errno.errorcode.get(err.errno or 0, "")]
    return ["", name]


def unmark(path: str, names: list[str]) -> None:
    """Remove the file again."""
    if len(names) > 1:
        with suppress(OSError):
            os.unlink(os.path.join(path, names[1]))


def seen(path: str) -> list[str]:
    """Read the file ``path``, which contains its own name. Return nothing, or the errno's name."""
    for left in reversed(range(TRIES)):
        try:
            with open(path, "rb") as file:
                return [] if file.read(MAX_NAME) == os.path.basename(path).encode() else ["EIO"]
        except OSError as err:
            if not left or err.errno != errno.ENOENT:
                return [errno.errorcode.get(err.errno or 0, "")]
        time.sleep(AGAIN_SECONDS)  # a network file system may need a moment
    return []


def _new_file(folder: str) -> int:
    """Return a file in the folder that has no name, or has lost it: nothing is left of it, however this process
    ends."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as err:
        if err.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):  # errors of file systems without O_TMPFILE
            raise
    path = os.path.join(folder, f".distdoctor-{os.getpid()}")
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.unlink(path)
    return descriptor


QUESTIONS: dict[str, Callable[[str], list[str]]] = {
    "addresses": addresses,
    "of_store": of_store,
    "name": name,
    "announced": announced,
    "folder": folder,
    "lock": lock,
    "mark": mark,
    "seen": seen,
}
HELD: dict[str, Callable[[str, list[str]], None]] = {"mark": unmark}
"""Clean-up of a child when nobody needs its result any more, by the question."""


def why_not(err: Exception) -> str:
    """Return the error of a look-up in words."""
    return err.strerror if isinstance(err, OSError) and err.strerror else str(err)


def main(control: socket.socket) -> None:
    """Fork a child per question until the socket closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an ignored SIGCHLD is inherited, and no child could be waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the socket then closes
    "localhost".encode("idna")  # what getaddrinfo() imports, once and not in each child
    running, holding = set[int](), set[int]()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, 1)
        running, holding = _still(running), _still(holding)
        if not data:
            break
        question = json.loads(data)
        pid = os.fork()
        if pid == 0:
            control.close()
            _answer(question, socket.socket(fileno=descriptors[0]))
        (holding if question["what"] in HELD else running).add(pid)
        os.close(descriptors[0])
    end = time.monotonic() + LEAVING_SECONDS
    while (holding := _still(holding)) and time.monotonic() < end:
        time.sleep(0.005)
    for pid in (*running, *holding):
        os.kill(pid, signal.SIGKILL)


def _still(children: set[int]) -> set[int]:
    return {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0}


def _waited() -> float:
    """Return the seconds for which this process has been ready to run without a processor (schedstat, in nanoseconds:
    the kernel's sched-stats.rst); 0 if unreadable."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _answer(question: dict[str, object], channel: socket.socket) -> None:
    """Answer and end, in the child."""
    try:
        what, of = str(question["what"]), str(question["of"])
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, float(str(question["seconds"])))
        if question["hurry"]:
            os.environ["RES_OPTIONS"] = HURRIED
        channel.sendall(BEGUN)
        began, waited = time.monotonic(), _waited()
        try:
            answer = QUESTIONS[what](of)
            reply: dict[str, object] = {"found": answer}
        except (OSError, UnicodeError) as err:
            reply = {"error": why_not(err)}
        reply["seconds"] = max(0.0, time.monotonic() - began - (_waited() - waited))
        channel.sendall(json.dumps(reply).encode())
        if what in HELD and "found" in reply:
            signal.setitimer(signal.ITIMER_REAL, 0)
            channel.recv(1)  # until the other end is closed
            HELD[what](of, answer)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
