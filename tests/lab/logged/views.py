"""What a person has of a job's logs: all consoles, one node's, a tree of ``--log-dir``, one file for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.lab.logged.job import Job
from tests.lab.logged.recorder import Recording


@dataclass(frozen=True)
class View:
    """Some logs of one job, and what may be said of them."""

    job: Job
    name: str
    files: Mapping[str, str]
    """The text of each file by its path."""
    answers: frozenset[str]
    """What may be said; the rank that the job names must be named with its check."""
    whole: bool = True
    """Whether the logs of all hosts are there: the candidates are those of the job, the host is named."""

    def __str__(self) -> str:
        return f"{self.job.name}: {self.name}"


def views(job: Job, recording: Recording) -> Iterator[View]:
    """All views of a job's logs."""
    hosts = range(job.hosts)
    names = {host: f"host{host}.log" for host in hosts}
    consoles = {host: recording.console(host) for host in hosts}
    wrote = [host for host in hosts if consoles[host].strip()]
    in_tree = job.tree == "-r"
    trees = {host: _below(recording.trees, f"host{host}/") for host in hosts}
    if wrote and not in_tree:
        yield View(job, "each console", {names[host]: consoles[host] for host in wrote}, job.answers)
        yield View(job, "one file", {"slurm-4711.out": "".join(line for _, line in recording.lines)}, job.answers)
    if len(wrote) > 1 and not in_tree:
        labelled = "".join(f"{host}: {line}" for host, line in recording.lines)
        yield View(job, "one file with the tasks of srun --label", {"slurm-4712.out": labelled}, job.answers)
        for host in wrote:
            yield View(job, f"host{host} alone", {"train.log": consoles[host]}, job.of_host(host), False)
    if recording.kernel:
        yield View(
            job,
            "consoles and dmesg",
            {**{names[host]: consoles[host] for host in wrote}, "dmesg.txt": recording.kernel},
            job.answers,
        )
    if recording.trees:
        everything = {path: text for files in trees.values() for path, text in files.items()}
        yield View(job, "the folders of --log-dir", everything, job.answers)
        with_consoles = {**everything, **{names[host]: consoles[host] for host in wrote}}
        yield View(job, "consoles and folders", with_consoles, job.answers)
        for host in hosts:
            if trees[host]:
                yield View(job, f"the folder of host{host} alone", trees[host], job.of_host(host), False)


def _below(trees: Mapping[str, str], folder: str) -> dict[str, str]:
    return {path: text for path, text in trees.items() if path.startswith(folder)}
