"""torchrun's own words, as its parser reads them (torch/distributed/run.py, get_args_parser, 2.2 to 2.13).

It is argparse: ``-`` and ``_`` are alike in the names that have both, a long name may be cut short while it is the only
one that begins so, and what stands behind the script belongs to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distdoctor.model.launch_settings import (
    LOCAL_ADDR,
    MASTER_ADDR,
    MASTER_PORT,
    NNODES,
    NODE_RANK,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_CONF,
    RDZV_ENDPOINT,
    RDZV_ID,
    STANDALONE,
    Setting,
)

_SWITCHES = ("--module", "--no-python", "--run-path", STANDALONE.flag, "--virtual-local-rank", "--help", "--use-env")
_OF_ITS_RANKS = (
    "--max-restarts", "--monitor-interval", "--start-method", "--event-log-handler", "--role", "--log-dir",
    "--redirects", "--tee", "--local-ranks-filter", "--duplicate-stdout-filters", "--duplicate-stderr-filters",
    "--logs-specs", "--numa-binding", "--signals-to-handle", "--shutdown-timeout",
)  # fmt: skip
"""With a value, and of what it does with the ranks that it has started: nodes meet alike with any."""
_VALUED = (
    NNODES.flag, NPROC_PER_NODE.flag, RDZV_BACKEND.flag, RDZV_ENDPOINT.flag, RDZV_ID.flag, RDZV_CONF.flag,
    NODE_RANK.flag, MASTER_ADDR.flag, MASTER_PORT.flag, LOCAL_ADDR.flag, *_OF_ITS_RANKS,
)  # fmt: skip
_READ = ("is_host", "join_timeout", "store_type")
"""Of the settings of the rendezvous those on which a check depends."""
_SHORT = {"m": "--module", "h": "--help", "r": "--redirects", "t": "--tee"}
_DEVICES = ("gpu", "cpu", "auto")
_ALL = (*_SWITCHES, *_VALUED)


def options(words: Sequence[str]) -> dict[str, str]:
    """Its options by their names with ``-``, of a switch an empty text; what begins with the script is left alone."""
    given: dict[str, str] = {}
    left = [*words]
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        if not word.startswith("--"):
            _short(word[1:], left, given)
            continue
        name, equals, value = word.partition("=")
        known = _known(name.replace("_", "-"))
        if known is None:
            continue
        if known in _VALUED and not equals:
            value = left.pop(0) if left else ""
        given[known] = value
    return given


def without_its_ranks(words: Sequence[str]) -> list[str]:
    """The words of a check without those options of torchrun's on which none of its stages depends."""
    kept: list[str] = []
    left = [*words]
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if name not in _OF_ITS_RANKS:
            kept.append(word)
        elif not equals:
            del left[:1]
    return kept


def flags(given: Mapping[str, str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The flags of a check with the plan of an agent with these options, in this environment.

    torchrun's defaults are told: of a check they are others. Raises ValueError for a rendezvous that is not known.
    """

    def value(setting: Setting) -> str:
        return given.get(setting.flag) or env.get(setting.pet) or ""

    told: list[str] = []

    def tell(setting: Setting, text: str) -> None:
        told.append(f"{setting.flag}={text}")

    nodes = value(NNODES) or "1"
    ranks = value(NPROC_PER_NODE) or "1"
    tell(NNODES, nodes)
    tell(NPROC_PER_NODE, ranks if ranks.isdecimal() or ranks in _DEVICES else "auto")
    if STANDALONE.flag in given:
        return (*told, STANDALONE.flag)
    backend = value(RDZV_BACKEND) or "static"
    if backend not in ("static", "c10d"):
        raise ValueError(f"the rendezvous {backend} is not one that can be checked (static, c10d)")
    for setting in (RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID, LOCAL_ADDR, MASTER_PORT):
        if given.get(setting.flag):
            tell(setting, given[setting.flag])
    if any(name in given.get(RDZV_CONF.flag, "") for name in _READ):
        tell(RDZV_CONF, given[RDZV_CONF.flag])
    alone = nodes.rpartition(":")[2] == "1"
    if backend == "static" and not value(RDZV_ENDPOINT) and (given.get(MASTER_ADDR.flag) or not alone):
        tell(MASTER_ADDR, value(MASTER_ADDR) or "127.0.0.1")
    if backend == "c10d" and not alone and not value(RDZV_ENDPOINT) and "store_type" not in value(RDZV_CONF):
        tell(RDZV_ENDPOINT, "localhost:29400")  # c10d_rendezvous_backend.py and utils.py, parse_rendezvous_endpoint()
    if backend == "static" and not alone:
        tell(NODE_RANK, value(NODE_RANK) or "0")
    return tuple(told)


def _known(name: str) -> str | None:
    begun = [one for one in _ALL if one.startswith(name)]
    return name if name in _ALL else begun[0] if len(begun) == 1 else None


def _short(letters: str, left: list[str], given: dict[str, str]) -> None:
    """Letters behind one dash: those that take a value take the rest, else the next word."""
    while letters:
        name, letters = _SHORT.get(letters[0]), letters[1:]
        if name in _VALUED:
            given[name] = letters.removeprefix("=") or (left.pop(0) if left else "")
            return
        if name is not None:
            given[name] = ""
