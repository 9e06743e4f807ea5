"""The folders that all nodes are to have in common: each node leaves a file there, and looks for node 0's."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from distdoctor.model.facts import SharedFolder
from distdoctor.model.launch_settings import INIT_METHOD
from distdoctor.probes.asker import MARK, MARK_BYTES
from distdoctor.probes.init_file import mount
from distdoctor.probes.look_up import ASKER
from distdoctor.probes.threads import in_time

SECONDS = 2.0
"""For one folder; they are asked all at once."""
NAME = re.compile(rf"{re.escape(MARK)}[0-9a-f]{{{2 * MARK_BYTES}}}")
"""Of such a file."""


async def leave(given: Iterable[str], init_method: str | None) -> tuple[SharedFolder, ...] | None:
    """Leave a file in each of the folders, and in that of a ``file://`` init method, until the run is over. None where
    there is none to look at."""
    named = dict.fromkeys(given, "--shared")
    if init_method and init_method.startswith("file://"):
        named.setdefault(os.path.dirname(urlsplit(init_method).path) or "/", INIT_METHOD.flag)
    return tuple(await asyncio.gather(*(_leave(path, by) for path, by in named.items()))) or None


async def look(folders: Iterable[SharedFolder], marks: Mapping[str, str]) -> tuple[SharedFolder, ...]:
    """The same folders, with what became there of node 0's files. ``marks``: their names, by the folder's path."""
    return tuple(await asyncio.gather(*(_look(one, marks.get(one.path)) for one in folders)))


async def _leave(path: str, by: str) -> SharedFolder:
    reply = await ASKER.leave_file(path, SECONDS)
    kind, source = await in_time(lambda: mount(os.path.realpath(path)), SECONDS) or (None, "")
    error, *name = reply.found or ("timeout" if reply.timed_out else "",)
    return SharedFolder(path, by, error, "".join(name), kind, source)


async def _look(folder: SharedFolder, name: str | None) -> SharedFolder:
    if name is None or folder.error in ("timeout", "ENOENT", "ENOTDIR"):
        return folder
    reply = await ASKER.ask("seen", os.path.join(folder.path, name), SECONDS)
    if reply.error is not None:
        return folder
    return replace(folder, node0="timeout" if reply.timed_out else "".join(reply.found))
