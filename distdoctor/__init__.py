"""distdoctor: says which node, link or setting keeps a PyTorch distributed job from starting.

In a script: :func:`preflight` before ``init_process_group()``, :func:`explain` for what that raised.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from distdoctor.job.api import Diagnosis, PreflightError, explain, preflight

__version__ = "0.1.0"
DOCS_URL = ""
"""Address of the documentation site; empty until the project owns one. ``$DISTDOCTOR_DOCS_URL`` replaces it."""
__all__ = ["Diagnosis", "PreflightError", "__version__", "explain", "preflight"]


def __getattr__(name: str) -> object:
    """Return what scripts use, loaded when it is: whoever only imports this package waits for nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from distdoctor.job import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
