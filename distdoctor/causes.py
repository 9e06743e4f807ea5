"""Checks named together as the causes of others, beside those of ``distdoctor.blame``."""

from __future__ import annotations

CONFLICTS = tuple(
    f"environment/{name}"
    for name in ("rendezvous-id-mismatch", "backend-not-built", "stale-init-file", "init-file-not-shared")
)
"""The plans contradict each other or what is there: node 0 then does not wait for those who have not come yet."""
LIMITS = ("host/open-files-limit", "host/ports-exhaustible")
"""A limit of the host that ranks run into wherever they need one more descriptor or port."""
