"""Import path of distdoctor itself, whatever is in the folder it is started in.

Python looks in the script's folder first (for ``python -m``: the working folder), then in PYTHONPATH, then in the
standard library, then in site-packages (https://docs.python.org/3/library/sys_path_init.html). A ``random.py`` of the
user's thus breaks every import of the real one. In the job that is a finding; it must not break the program that finds
it.

Imports nothing but modules that are loaded when Python starts.
"""

from __future__ import annotations

import os
import sys

archive = ""
"""Single-file archive that all of this was unpacked from, if any (``scripts/pyz.py``)."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_OF_SOCKET = ("socket", "getaddrinfo", "gethostbyname", "gethostname", "getnameinfo", "getfqdn", "create_connection")
"""Functions that are replaced to send all connections through a proxy, to forbid them, or to have IPv4 alone."""


def settle() -> None:
    """Take the script's or working folder off sys.path, and look in PYTHONPATH last; restore Python's own socket
    module.

    PYTHONPATH stays, as some sites have all their packages there; a folder that contains distdoctor itself stays,
    too.
    """
    entries, last = list(sys.path), _absolute(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if entries and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        first = entries.pop(0)
        if first in _absolute([package_parent()]):
            entries.append(first)
            last.append(first)
    sys.path[:] = [e for e in entries if e not in last] + [e for e in entries if e in last]
    _restore_socket()


def _restore_socket() -> None:
    """Undo changes of a sitecustomize.py or a .pth file to the socket module: torch's stores and gloo connect without
    Python, and are not bound by them."""
    module = sys.modules.get("socket")
    if module is not None and any(_replaced(getattr(module, name, None)) for name in _OF_SOCKET):
        import importlib

        importlib.reload(module)


def _replaced(value: object) -> bool:
    """Return whether a class or function of the socket module is another's, or a class has been given another's
    method."""
    methods = vars(value).values() if isinstance(value, type) else ()
    foreign = (one.__module__ not in ("socket", "_socket") for one in methods if type(one) is type(settle))
    return getattr(value, "__module__", "") not in ("socket", "_socket") or any(foreign)


def package_parent() -> str:
    """Return the folder that contains the package distdoctor."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def hiding() -> dict[str, Any]:
    """Return the modules that were loaded in place of those of the standard library, by their names."""
    home = os.path.dirname(os.__file__)
    return {
        name: module
        for name, module in tuple(sys.modules.items())
        if name.partition(".")[0] in sys.stdlib_module_names
        and not str(getattr(module, "__file__", None) or home).startswith(home)
    }


def _absolute(entries: list[str]) -> list[str]:
    try:
        return [os.path.abspath(entry) for entry in entries if entry]
    except OSError:  # the working folder is gone
        return [entry for entry in entries if os.path.isabs(entry)]
