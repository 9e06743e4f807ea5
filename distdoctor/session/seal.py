"""Seals: where the nodes of a run share a token, everything written into the store bears a code made with it.

The code (HMAC-SHA256) is over the key, which names the run, the writer and the place in its sequence, and over the
value: a message that is changed, moved to another key or taken from another run is not authentic. The token itself is
never written anywhere. Without a token values are as they are, and a sealed one is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

MAGIC = b"distdoctor sealed 1\n"
MAC_BYTES = 32
OVERHEAD = len(MAGIC) + MAC_BYTES


class NotAuthentic(Exception):
    """A value that does not come from a process with this run's token; the text says why."""


class NotSealed(NotAuthentic):
    """A value without a code, where there is a token."""


class Sealed(NotAuthentic):
    """A value with a code, where there is no token."""


class Seal:
    """Closes what is written and opens what is read."""

    def __init__(self, token: str | None) -> None:
        secret = token.encode(errors="surrogateescape") if token else b""
        self._key = hashlib.sha256(b"distdoctor 1\0" + secret).digest() if secret else b""

    @property
    def keyed(self) -> bool:
        """Whether there is a token."""
        return bool(self._key)

    def close(self, key: str, data: bytes) -> bytes:
        """``data`` as it is to be written under ``key``."""
        return MAGIC + self._code(key, data) + data if self.keyed else data

    def open(self, key: str, value: bytes) -> bytes:
        """What was closed under ``key``. Raises NotAuthentic."""
        sealed = value.startswith(MAGIC)
        if not self.keyed:
            if sealed:
                raise Sealed("is sealed with a token, and this node has none")
            return value
        if not sealed:
            raise NotSealed("is not sealed, though this run has a token")
        code, data = value[len(MAGIC) : OVERHEAD], value[OVERHEAD:]
        if not hmac.compare_digest(code, self._code(key, data)):
            raise NotAuthentic("is not sealed with this run's token, or was written for another place or run")
        return data

    def derived(self, name: str, length: int) -> str:
        """A secret of ``length`` bytes for another use, as hexadecimal digits."""
        return hashlib.pbkdf2_hmac("sha256", self._key, name.encode(), 1, length).hex()

    def _code(self, key: str, data: bytes) -> bytes:
        name = key.encode()
        return hmac.digest(self._key, struct.pack(">Q", len(name)) + name + data, "sha256")
