"""An error that a program's text quotes was said by nobody: in source, in what grep found there, in a patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.logs.quotations import is_cited, is_program
from distdoctor.logs.scanner import KnownLine
from distdoctor.model.log_line import Line
from tests.helpers.pace import yardsticks
from tests.logs.judging import judged, judged_files, roots

IN_USE = "RuntimeError: Address already in use"
OOM = "CUDA error: out of memory"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
LOADER = "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed."
QUOTED = {
    "one of expressions": f'FATAL = re.compile(\n    r"{OOM}|Killed",\n    r"{IN_USE}",\n)\n',
    "a pair": f'    (r"{OOM}", "memory"),\n',
    "an argument": f'    assert_found(folder, log="{XID}")\n',
    "a test": f'        if "{IN_USE}" in str(error):\n            continue\n',
    "what a test expects": f"    with self.assertRaisesRegex(RuntimeError, '{IN_USE}'):\n",
    "a decorator": f"@again(SomeError, match='{IN_USE}')\n",
    "a name": f'text = head + "\\n{LOADER}\\n"\n',
    "a macro of C": f'      WARN("{IN_USE} %d", port);\n',
    "a value of printf": '  fmt = "Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx";\n',
    "a page on it": "Duplicate GPU detected : rank X and rank Y both on CUDA device XXXXX\n",
    "a shell's test": f'if grep -q "{OOM}" "$LOG"; then\n    exit 1\nfi\n',
    "a comparison": f'    return str(error) == "{IN_USE}"\n',
    "a shell's pipe": f'dmesg | grep -c "{XID}"\n',
    "a shell's count": f'LOST=$(grep -c "{XID}" messages)\n',
    "a shell's case": '    *"No space left on device"*|*"Disk quota exceeded"*)\n        why=full ;;\n',
    "a comment": f"    # {LOADER}\n    loader = make(workers=0)\n",
    "a comment of C": f"// {OOM}\n",
    "a rule of YAML": f'  - name: port\n    pattern: "{IN_USE}"\n',
    "grep in Python": f'lib/net.py:44:            raise RuntimeError("{IN_USE}")\n',
    "grep in C": 'src/shm.cc:132:    WARN("Error while creating shared memory segment %s", path);\n',
    "a shell that traces what it looks for": f"+ grep -q '{IN_USE}' train.log\n",
    "a shell that traces what it would do": f"+ trap 'echo \"{OOM}\"; again' USR1\n",
    "a shell that traces what it says": f"+ echo 'no {IN_USE} in it'\n",
    "what a model wrote": f'[rank0]: sample 3: "Where it says {IN_USE}, take another port."\n',
    "what a model was asked": f"prompt: 'What is {OOM}?'\n",
    "a variable": f"LAST_STATE={OOM}\nPWD=/home/u\n",
    "a variable in a shell's trace": f"++ export LAST_STATE='{OOM}'\n",
    "a comment behind a statement": f"workers = 12  # more of them: {LOADER}\n",
}
SAID = {
    "behind a time": f"2026-01-31 12:00:00,123 - {IN_USE}",
    "of a rank": f"[rank3]: {IN_USE}",
    "grep in a log": f"logs/rank0.log:1812:{IN_USE}",
    "grep in one log": f"1812:{IN_USE}",
    "quoted in a mail": f"> {IN_USE}",
    "a heading": f"### {IN_USE}",
    "a title": f"# {IN_USE}\n\nI started it twice.",
    "a banner": f"{'#' * 40}\n# Job 4242 on gpu3\n# {IN_USE}\n{'#' * 40}",
    "in quotes": f'"{IN_USE}"',
    "a list of JSON": f'[\n  "start",\n  "{IN_USE}",\n  "end"\n]',
    "a list of JSON with a name": f'{{\n"lines": [\n  "{IN_USE}",\n  "end"\n]}}',
    "behind what another rank did not end": f'    net(**batch["input"]){IN_USE}',
    "traced by a shell": f"+ torchrun train.py\n{IN_USE}",
    "below a patch": f"@@ -1,3 +1,3 @@\n text\n-one\n+two\n text\n$ torchrun train.py\n{IN_USE}",
    "a part of a box": f"| {IN_USE} |",
    "with a remark on code": f'{IN_USE} (in "rendezvous")',
    "with a comparison": f"{IN_USE}: kind == 'server'",
    "with what printf would fill in": f"{IN_USE}: '/tmp/socket_%d'",
    "with strings that are given names": f"{IN_USE}, host='a', options=\"b\",",
    "with a path of slashes": f'{IN_USE}: // is no path of "s3://b"; mend it;',
    "behind a place and a tab": f"train.py:97:\t{IN_USE}",
    "of a sample": f"sample 3: {IN_USE}",
    "in a variable, as an exception": f"REASON={IN_USE}",
    "behind what a process hands on": f'concurrent.futures.process._RemoteTraceback: \n"""\n{IN_USE}\n"""',
    "behind a string that does not end": f'def f(x):\n    """Return\n{IN_USE}',
    "of a rank between what models wrote": f'def f(x):\n    """Return\n[rank3]: {IN_USE}\ndef g(x):\n    """Go."""',
    "in an object": f'Result(\n    metrics={{}},\n    error="{IN_USE}",\n)',
    "in an object of one line": f'WorkerStatus(rank=3, error="{IN_USE}")',
    "below braces that a logger opens": f'ERROR error_handler: {{\n  "reason": "{IN_USE}",\n  "rank": 3\n}}',
    "with a name, as logs in logfmt": f'level=error msg="{IN_USE}" rank=3',
    "between backticks alone": f"`{IN_USE}`",
    "between rules": f"# {'-' * 40}\n# {IN_USE}\n# {'-' * 40}",
}


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
def test_what_a_program_quotes_was_not_said(tmp_path: Path, text: str) -> None:
    found = judged(tmp_path, f"{text}")
    assert (found.findings, found.candidates) == ((), ())


@pytest.mark.parametrize("text", SAID.values(), ids=SAID)
def test_what_was_said_is_known_whatever_is_around_it(tmp_path: Path, text: str) -> None:
    assert [check for check, _ in roots(tmp_path, f"{text}\n")] == ["network/port-in-use"]


@pytest.mark.parametrize(
    "line",
    [
        'shm_open("/dev/shm/nccl-1") failed: No space left on device',
        'ftruncate("/dev/shm/torch_1", 4096) = -1 ENOSPC (No space left on device)',
        'OSError: [Errno 28] No space left on device: "/tmp/a"',
        "RuntimeError('CUDA error: out of memory')",
        "save('/ckpt/step-900.pt') raised OSError: [Errno 28] No space left on device",
        "write('/ckpt/step-900.pt') was cut short: No space left on device",
        'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (mode == "train")',
        "AssertionError: expected backend == 'nccl' but got 'gloo'",
        "ValueError: the number of heads % tp != '0'",
    ],
)
def test_how_a_call_went_was_said(tmp_path: Path, line: str) -> None:
    assert roots(tmp_path, f"{line}\n")


@pytest.mark.parametrize("name", ["shm.cpp", "faq.rst", "mend.diff", "shm.h"])
def test_a_file_of_source_says_nothing_of_a_job(tmp_path: Path, name: str) -> None:
    for number in range(2):
        (tmp_path / f"rank{number}.log").write_text("step 1 loss 2.1\nstep 2 loss 2.0\ntraining finished\n")
    (tmp_path / name).write_text(f"Whoever starts it twice sees\n{IN_USE}\n")
    assert judged_files(tmp_path).verdict == "pass"
    (tmp_path / name).rename(tmp_path / "rank2.node.rs")
    assert judged_files(tmp_path).verdict == "fail"


@pytest.mark.perf
@pytest.mark.parametrize(
    "part", ['"a", ', "f(", "a=", "| ", "# ", "'\\", 'if "', "x = ", '%d"', "-" * 20, "a(b) ", '"""']
)
@pytest.mark.parametrize("end", [IN_USE, f'"{IN_USE}"', f"`{IN_USE}`"])
def test_no_line_takes_long(part: str, end: str) -> None:
    line = f"{(part * 600)[: 1998 - len(end)]}{end}"
    known = KnownLine("network/port-in-use", Line("Address already in use"))

    def ask() -> None:
        for _ in range(20):
            is_program(line)
            is_cited(line, known)

    assert yardsticks(ask) < 4


@pytest.mark.parametrize("prompt", ["[user@node0008 ~]$", "(env) user@no-gpu:~$", "node1:"])
def test_a_command_that_sets_an_interface_is_no_error(tmp_path: Path, prompt: str) -> None:
    found = judged(tmp_path, f"{prompt} NCCL_SOCKET_IFNAME=eth0 torchrun --nnodes=2 train.py\n{IN_USE}\n")
    assert [one.check for one in found.findings if one.because_of is None] == ["network/port-in-use"]
