"""The start of distdoctor.pyz: puts what it holds into a folder of its user's, once, and runs it from there.

Some of the packages have parts in C, which no Python can load out of an archive. The folder is below $XDG_CACHE_HOME
(~/.cache); where none can be written there, or others may write there, a temporary one is made and removed again.
"""

import atexit
import os
import shutil
import signal
import sys
import tempfile
import zipfile

ARCHIVE = os.path.dirname(os.path.abspath(__file__))
TAG = f"cpython-{sys.version_info[0]}{sys.version_info[1]}-"


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as for a program below nohup
            signal.signal(number, leave)
    with zipfile.ZipFile(ARCHIVE) as archive:
        name, versions = archive.read("CONTENTS").decode().split("\n")[:2]
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if here not in versions.split():
            sys.exit(f"{sys.argv[0]}: made for Python {versions}; this is {here} ({sys.executable})")
        try:
            folder = unpacked(archive, f"{name}-{here}")
        except OSError as err:
            sys.exit(f"{sys.argv[0]}: cannot be unpacked: {err}")
    sys.path.insert(
        1, os.path.join(folder, "site")
    )  # the first is the archive, which distdoctor takes off as its script's folder
    from distdoctor import own_path

    own_path.archive = ARCHIVE
    from distdoctor.__main__ import main as run

    run()


def leave(number, frame):
    """Remove what was unpacked only in part, and end without a traceback."""
    sys.exit(128 + number)


def unpacked(archive, name):
    """The folder with all that the archive holds. Raises OSError."""
    try:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "distdoctor")
        os.makedirs(base, mode=0o700, exist_ok=True)
        state = os.stat(base)
        if not os.path.isabs(base) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            raise PermissionError(base)
        whole = os.path.join(base, name)
        if not os.path.isdir(whole):
            made = tempfile.mkdtemp(dir=base)
            try:
                extract(archive, made)
                os.rename(made, whole)  # another start may have been first: then its folder is there
            except OSError:
                shutil.rmtree(made, ignore_errors=True)
                if not os.path.isdir(whole):
                    raise
            except SystemExit:
                shutil.rmtree(made, ignore_errors=True)
                raise
        return whole
    except OSError:
        folder = tempfile.mkdtemp(prefix="distdoctor-")
        atexit.register(remove, folder, os.getpid())
        extract(archive, folder)
        return folder


def extract(archive, folder):
    """Unpack the part that this Python can use."""
    names = [name for name in archive.namelist() if name.startswith("site/")]
    archive.extractall(folder, [name for name in names if TAG in name or ".cpython-" not in name])
    program = os.path.join(folder, "site", "bin", "py-spy")
    if os.path.exists(program):
        os.chmod(program, 0o755)  # an archive keeps no modes


def remove(folder, pid):
    """Not in a forked child, which ends before its parent."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


main()
