"""Launchers that number the ranks they start in variables of their own: mpirun, mpiexec, jsrun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distdoctor.launch import jobs
from distdoctor.launch.launched import Found, Launched
from distdoctor.launch.nodes import number_of
from distdoctor.model.launch_settings import LOCAL_RANK, MASTER_ADDR, NPROC_PER_NODE, RANK, WORLD_SIZE


@dataclass(frozen=True)
class Numbered:
    """The four variables of such a launcher: each rank's number and how many there are, in all and on its node."""

    rank: str
    size: str
    local_rank: str
    local_size: str
    with_variable: str
    """How its command hands on a variable: ``mpirun -x {}={}``."""

    def one_of_several(self, env: Mapping[str, str]) -> bool:
        """Whether this process is one of several that it started."""
        return self.rank in env and self.size in env and number_of(env[self.size]) != 1

    def on_one_node(self, env: Mapping[str, str]) -> bool:
        """Whether all of them are on this node."""
        return env.get(self.local_size) == env[self.size]

    def placed(self, env: Mapping[str, str]) -> dict[str, Found]:
        """The port of the job, and where the ranks meet if all of them are on this node."""
        found = dict(jobs.port(env))
        if self.on_one_node(env):
            found["nnodes"] = Found(1, self.local_size)
            found["master_addr"] = Found("127.0.0.1", self.local_size)
        return found

    def launched(self, name: str, found: Mapping[str, Found], roster: Sequence[str] = ()) -> Launched:
        """What it tells. The variables of torch, where they are set, count before its own."""
        command = next(word for word in self.with_variable.split() if "{" not in word)
        return Launched(
            name,
            {
                "rank": (*RANK.variables, self.rank),
                "world_size": (*WORLD_SIZE.variables, self.size),
                "local_rank": (*LOCAL_RANK.variables, self.local_rank),
                "nproc_per_node": (*NPROC_PER_NODE.variables, self.local_size),
                "node_rank": (),
            },
            found,
            (),
            tuple(roster),
            nodes_even=False,
            task=self.rank,
            rank0_unknown=(
                f"{command} does not tell the ranks where rank 0 is: add its host, "
                f"`{self.with_host('HOST')} ... distdoctor check`"
            ),
        )

    def with_host(self, host: str) -> str:
        """The start of a command that says where rank 0 is."""
        return self.with_variable.format(MASTER_ADDR.variables[0], host)
