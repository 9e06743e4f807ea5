"""Whether this user has a folder for temporary files."""

from __future__ import annotations

import os
import tempfile

from distdoctor.model.facts import TemporaryFolder


def probe() -> TemporaryFolder:
    """What Python's tempfile finds by $TMPDIR, $TEMP, $TMP, /tmp, /var/tmp, /usr/tmp and the working directory.

    It tries a file in each until one can be written, and takes it away again.
    """
    try:
        return TemporaryFolder(tempfile.gettempdir())
    except OSError as err:
        places = (os.environ.get("HOME"), "/dev/shm")
        usable = (place for place in places if place and os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK))
        return TemporaryFolder(None, err.strerror or str(err), next(usable, None))
