"""NCCL's RAS: what is sent to it, what of its answer is kept, and servers that are none."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from distdoctor.hang import debug_server, inspect
from distdoctor.logs.ras import counts_in, missing_from
from distdoctor.model.facts import Socket
from tests.hang.test_hostile_stores import flood, silent
from tests.helpers.servers import serving, unused_port
from tests.job_builder import rank

HEAD = """NCCL version 2.27.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  {}

"""
LEFT_BEHIND = """#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 42
  Rank 3 has launched up to operation 41 -- GPU 3 managed by process 4711 on node 10.0.0.2

"""
DEAD = """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4711 on node 10.0.0.2 managing GPU 3

"""


class Ras:
    """Speaks as src/ras/client_support.cc does: line by line."""

    def __init__(self, status: str) -> None:
        self.status, self.lines = status, list[str]()

    def __call__(self, opened: socket.socket) -> None:
        for line in opened.makefile("r"):
            self.lines.append(line.strip())
            if line.startswith("CLIENT PROTOCOL "):
                opened.sendall(b"SERVER PROTOCOL 2\n")
            elif line.startswith("TIMEOUT "):
                opened.sendall(b"OK\n")
            else:
                opened.sendall(self.status.encode())
                return


def sections(errors: str = "", warnings: str = "", word: str = "OK") -> str:
    return HEAD.format(word) + f"Errors\n======\n\n{errors}Warnings\n========\n\n{warnings}"


def test_what_it_says() -> None:
    server = Ras(sections(DEAD, LEFT_BEHIND, "MISMATCH"))
    with serving(server) as port:
        found = debug_server.ask_ras(port=port, timeout=3)
    assert server.lines == ["CLIENT PROTOCOL 2", "TIMEOUT 1", "STATUS"]
    assert found.answers and found.whole and not found.problem and found.version == "2.27.3"
    assert found.errors == (
        "DEAD 1 job process is considered dead (unreachable via the RAS network) "
        "Process 4711 on node 10.0.0.2 managing GPU 3",
    )
    assert "Rank 3 has launched up to operation 41" in found.warnings[0]


def test_a_healthy_job_has_nothing_to_say() -> None:
    with serving(Ras(sections())) as port:
        found = debug_server.ask_ras(port=port, timeout=3)
    assert found.whole and found.errors == found.warnings == ()


def test_what_is_cut_short_is_not_whole() -> None:
    with serving(Ras(sections(DEAD).partition("Warnings")[0])) as port:
        found = debug_server.ask_ras(port=port, timeout=3)
    assert found.answers and not found.whole and len(found.errors) == 1


def test_what_it_says_is_cleaned() -> None:
    with serving(Ras(sections("\x1b[2J" + "x" * 9000 + "\n\n" + "y\n\n" * 9000))) as port:
        found = debug_server.ask_ras(port=port, timeout=3)
    assert found.errors[0].startswith("\\x1b[2J") and all(len(one) <= 500 for one in found.errors)
    assert len(found.errors) <= 64


OTHERS: dict[str, Callable[[socket.socket], None]] = {
    "silence": silent,
    "endless noise": flood,
    "hangs up": lambda opened: None,
    "another server": lambda opened: opened.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"),
}


@pytest.mark.parametrize("handle", OTHERS.values(), ids=OTHERS)
def test_servers_that_are_none(handle: Callable[[socket.socket], None]) -> None:
    """Some would keep it for ever."""
    with serving(handle) as port:
        found = debug_server.ask_ras(port=port, timeout=0.8)
    assert not found.answers and found.problem.isprintable() and found.problem


def test_nothing_listens() -> None:
    assert "refused" in debug_server.ask_ras(port=unused_port(), timeout=1).problem


COUNTS = """#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  7 ranks have status RUNNING
  Rank 3 has status FINALIZE -- GPU 3 managed by process 4711 on node 10.0.0.2

  Communicator ranks have different AllReduce operation counts
  6 ranks have launched up to operation 42
  2 ranks have launched up to operation 41
  Rank 3 -- GPU 3 managed by process 4711 on node 10.0.0.2
  Rank 4 -- GPU 4 managed by process 4712 on node 10.0.0.2

  Communicator ranks have different ReduceScatter operation counts
  7 ranks have not launched any operations
  Rank 0 has launched up to operation 1 -- GPU 0 managed by process 99 on node fe80::1%eth0

#1-0 (7) INCOMPLETE
  Missing communicator data from 1 rank
"""


def test_how_far_each_rank_is_in_each_kind_of_collective() -> None:
    reduced, scattered = counts_in(COUNTS)
    assert (reduced.communicator, reduced.operation) == ("cf264af53edbe986", "all_reduce")
    assert [(one.rank, one.pid, one.launched) for one in reduced.ranks] == [(3, 4711, 41), (4, 4712, 41)]
    assert (reduced.others, reduced.others_launched, reduced.behind) == (6, 42, 41)
    assert (scattered.operation, scattered.others, scattered.others_launched) == ("reduce_scatter", 7, 0)
    assert [(one.rank, one.pid, one.launched) for one in scattered.ranks] == [(0, 99, 1)]


@pytest.mark.parametrize("text", ["", "#0-0 (x) MISMATCH\n", COUNTS[:200], "\x00" * 100, "Rank 1 -- GPU " * 1000])
def test_texts_that_are_none_give_nothing_that_counts(text: str) -> None:
    assert all(count.communicator for count in counts_in(text))


GONE = """INCOMPLETE
  Missing communicator data from 1 job process
  Process 4711 on node 10.0.0.2 managing GPU 3

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 3 managed by process 4711 on node 10.0.0.2

#0-0 (cf264af53edbe986) ERROR
  Asynchronous errors on 3 ranks
  2 ranks reported Remote process error
  Rank 0 -- GPU 0 managed by process 100 on node 10.0.0.1
  Rank 2 -- GPU 2 managed by process 102 on node 10.0.0.2
  Rank 1 reported Invalid usage -- GPU 1 managed by process 101 on node 10.0.0.1

#1-0 (99) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 3 managed by process 4711 on node 10.0.0.2

"""
GROUPS = """Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         2         4         4   RUNNING  INCOMPLETE,ERROR
    1         2         2         1         2         4   RUNNING  INCOMPLETE
"""


def test_who_is_gone_is_told_by_the_communicator_of_all() -> None:
    """In the others a rank has another number than in the job."""
    missing, bereft = missing_from(GONE, GROUPS, 4)
    assert [(one.rank, one.pid, one.host) for one in missing] == [(3, 4711, "10.0.0.2")]
    assert bereft == (100, 102)
    assert [one.rank for one in missing_from(GONE, GROUPS, 2)[0]] == [1]
    assert missing_from(GONE, "", 4) == ((), (100, 102))


def test_who_is_gone_is_in_what_it_says() -> None:
    with serving(Ras(sections(GONE))) as port:
        found = debug_server.ask_ras(port=port, timeout=3, world=8)  # as many as the communicator of the table has
    assert [one.pid for one in found.missing] == [4711] and found.bereft == (100, 102)


def test_what_another_job_says_at_the_same_port_is_not_taken() -> None:
    """All ranks of a host listen there, and the kernel chooses who answers."""
    said = [sections(warnings=LEFT_BEHIND), sections(warnings=LEFT_BEHIND.replace("4711", "12"))]
    servers = iter([Ras(said[0]), Ras(said[0]), Ras(said[1])])

    def answer(opened: socket.socket) -> None:
        next(servers)(opened)

    with serving(answer) as port:
        listening = Socket("LISTEN", "127.0.0.1", port)
        one = replace(rank(3), pid=12, sockets=(listening,), variables={"NCCL_RAS_ADDR": f"localhost:{port}"})
        view = inspect.view_by_ras([one], timeout=5)
    assert view is not None and [who.pid for count in view.counts for who in count.ranks] == [12]
