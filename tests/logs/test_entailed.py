"""What a process raised because another one had died is no root, by Python's own account of why it was raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement
from tests.logs.judging import CLOSED, judged, judged_files, raised

GLOO = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:1"
CAUSE = "\n{who}The above exception was the direct cause of the following exception:\n\n"
HANDLING = "\n{who}During handling of the above exception, another exception occurred:\n\n"


def judged_tree(folder: Path, files: dict[str, str]) -> LogJudgement:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return judged_files(folder)


def wrapped(who: str, inner: str, how: str, *outer: str) -> str:
    return raised(who, inner) + "".join(how.format(who=who) + raised(who, error) for error in outer)


def test_who_tells_of_a_peer_in_words_of_its_own_did_not_fail_first(tmp_path: Path) -> None:
    for number, inner in enumerate((GLOO, CLOSED)):
        folder = tmp_path / str(number)
        folder.mkdir()
        first = wrapped(
            "[rank0]: ", inner, CAUSE, "trainer.TrainerError: training failed", "SystemError: run 7 is over"
        )
        found = judged(folder, first, raised("[rank2]: ", "KeyError: 'pixel_values'"))
        assert found.findings[0].summary == "Rank 2 failed at train.py:8 with KeyError: 'pixel_values'."
        assert found.findings[0].ranks == (2,)


def test_what_failed_while_the_end_of_a_peer_was_handled(tmp_path: Path) -> None:
    gone = "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/emergency.pt'"
    found = judged(
        tmp_path, wrapped("[rank0]: ", GLOO, HANDLING, gone), raised("[rank2]: ", "KeyError: 'pixel_values'")
    )
    assert found.findings[0].ranks == (2,)


def test_what_all_raise_at_their_end_is_not_why_the_first_of_them_ended(tmp_path: Path) -> None:
    gone = "RuntimeError: Parent directory /ckpt/emergency does not exist."
    own = wrapped("[rank2]: ", "KeyError: 'pixel_values'", HANDLING, gone)
    found = judged(tmp_path, own + "".join(wrapped(f"[rank{rank}]: ", GLOO, HANDLING, gone) for rank in (0, 1)))
    assert found.findings[0].summary == "Rank 2 failed at train.py:8 with KeyError: 'pixel_values'."
    assert found.findings[0].ranks == (2,)


def test_where_nothing_else_is_known_it_is_not_told_as_the_reason(tmp_path: Path) -> None:
    found = judged(tmp_path, wrapped("[rank0]: ", GLOO, CAUSE, "trainer.TrainerError: training failed"))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert "process/peer-died" in [candidate.check for candidate in found.candidates]


def test_what_was_raised_because_of_the_program_itself_is_the_root(tmp_path: Path) -> None:
    own = wrapped("[rank2]: ", "KeyError: 'pixel_values'", CAUSE, "trainer.TrainerError: step 4")
    found = judged(tmp_path, raised("[rank0]: ", GLOO), own)
    assert found.findings[0].summary == "Rank 2 failed at train.py:8 with KeyError: 'pixel_values'."
    assert "then raised: trainer.TrainerError: step 4" in found.findings[0].evidence
    found = judged(tmp_path, raised("[rank2]: ", GLOO) + "step 1 loss 1\n" * 200 + own)  # that is long ago
    assert "KeyError" in found.findings[0].summary


def test_what_a_worker_of_the_data_raised_is_what_torch_wraps(tmp_path: Path) -> None:
    text = raised(
        "", GLOO.replace("RuntimeError: ", "RuntimeError: Caught RuntimeError in DataLoader worker process 0. ")
    )
    original = raised("", "KeyError: 'labels'").replace("Traceback", "Original Traceback", 1)
    assert "KeyError" in judged(tmp_path, text + original).findings[0].summary


def test_what_a_process_has_caught_that_ended_later_on_of_another(tmp_path: Path) -> None:
    """As where stderr alone is in a file, and the steps, behind which an error was survived, are in another."""
    tree = {
        "r/attempt_0/0/stderr.log": raised("", "RuntimeError: BLEU: no reference") + raised("[rank0]: ", GLOO),
        "r/attempt_0/1/stderr.log": raised("[rank1]: ", GLOO),
    }
    died = {"r/attempt_0/2/stderr.log": raised("[rank2]: ", "AttributeError: no attribute 'grad'")}
    found = judged_tree(tmp_path / "a", {**tree, **died})
    assert (found.findings[0].ranks, "AttributeError" in found.findings[0].summary) == ((2,), True)
    assert "BLEU" in judged_tree(tmp_path / "b", tree).findings[0].summary  # where nothing else is known


def test_what_a_process_was_ended_by_while_others_failed_of_it(tmp_path: Path) -> None:
    """The end of the others came while its own error was handled."""
    own = raised("[rank0]: ", "KeyError: 'labels'") + HANDLING.format(who="[rank0]: ") + raised("[rank0]: ", GLOO)
    tree = {"r/attempt_0/0/stderr.log": own, "r/attempt_0/1/stderr.log": raised("[rank1]: ", "StageError: no answer")}
    found = judged_tree(tmp_path, tree)
    assert (found.findings[0].ranks, "KeyError" in found.findings[0].summary) == ((0,), True)


def test_a_warning_that_was_raised_as_an_error(tmp_path: Path) -> None:
    text = raised("[rank1]: ", "UserWarning: To copy construct from a tensor") + raised("[rank0]: ", GLOO)
    found = judged(tmp_path, text).findings[0]
    assert (found.ranks, "UserWarning" in found.summary) == ((1,), True)
    warned = "step 1 loss 1\n/a/b.py:3: UserWarning: To copy construct from a tensor\nUserWarning: old\nstep 2 loss 1\n"
    (tmp_path / "other").mkdir()
    assert not judged(tmp_path / "other", warned).findings


@pytest.mark.parametrize(
    ("file", "error", "root"),
    [
        ("/w/cache.py", "EOFError: Ran out of input", True),
        ("/usr/lib/python3.11/multiprocessing/spawn.py", "EOFError: Ran out of input", False),
        ("/usr/lib/python3.11/multiprocessing/connection.py", "EOFError", False),
    ],
)
def test_the_end_of_a_file_is_not_that_of_a_process(tmp_path: Path, file: str, error: str, root: bool) -> None:
    text = f'[rank0]: Traceback (most recent call last):\n[rank0]:   File "{file}", line 8, in load\n[rank0]: {error}\n'
    found = judged(tmp_path, text + raised("[rank1]: ", GLOO))
    assert [one.ranks for one in found.findings if one.because_of is None] == ([(0,)] if root else [])
