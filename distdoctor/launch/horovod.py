"""horovodrun over gloo: HOROVOD_* (horovod/common/gloo/gloo_context.cc); over mpirun the ranks have OMPI_* as well.

The host that horovodrun was started on is told, which is the first unless a host file leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.numbered import Numbered
from distdoctor.model.launch_variables import HOROVOD

NAME = "Horovod"
RANKS = Numbered(*HOROVOD, "{}={} horovodrun")
_DRIVER = "HOROVOD_GLOO_RENDEZVOUS_ADDR"


def detect(env: Mapping[str, str]) -> Launched | None:
    """One rank of several."""
    if not RANKS.one_of_several(env):
        return None
    found = RANKS.placed(env)
    if "master_addr" not in found and (driver := env.get(_DRIVER)):
        found["master_addr"] = Found(driver, _DRIVER)
    return RANKS.launched(NAME, found)


def without(env: Mapping[str, str]) -> dict[str, str]:
    """The variables but for its own."""
    return {name: value for name, value in env.items() if not name.startswith("HOROVOD_")}
