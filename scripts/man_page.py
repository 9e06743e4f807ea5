"""The man page, made from the same help as `distdoctor --help`.

python scripts/man_page.py            write share/man/man1/distdoctor.1, share's completions and tests/cli/help
python scripts/man_page.py --print    print the man page
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import typer  # noqa: E402

from distdoctor import __version__  # noqa: E402
from distdoctor.cli.app import app  # noqa: E402
from distdoctor.cli.completion import VARIABLE  # noqa: E402
from distdoctor.cli.parsing import COMMANDS  # noqa: E402
from distdoctor.cli.typer_patches import option_groups  # noqa: E402

PAGE = ROOT / "share/man/man1/distdoctor.1"
COMPLETIONS = {
    "bash": ROOT / "share/bash-completion/completions/distdoctor",
    "zsh": ROOT / "share/zsh/site-functions/_distdoctor",
    "fish": ROOT / "share/fish/vendor_completions.d/distdoctor.fish",
}
"""Folder of each shell's completions below the installation prefix."""
HELP = ROOT / "tests/cli/help"
"""The help of each command as a terminal of 80 columns shows it."""
STATUS = "Exit status:"
SEE_ALSO = ".BR torchrun (1),\n.BR srun (1),\n.BR nft (8)"


def page() -> str:
    """The whole page, in roff."""
    program: Any = typer.main.get_command(app)
    commands = {name: command for name, command in program.commands.items() if not command.hidden}
    examples, status = _split(program.epilog)
    first, _, rest = program.help.strip().partition("\n\n")
    lines = [
        f'.TH DISTDOCTOR 1 "" "distdoctor {__version__}" "User Commands"',
        ".SH NAME",
        f"distdoctor \\- {_text(first[0].lower() + first[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        *(f".B distdoctor {name}\n{_usage(command)}\n.br" for name, command in commands.items()),
        ".SH DESCRIPTION",
        *_prose(rest),
        *_prose(examples),
        ".SH COMMANDS",
    ]
    for name, command in commands.items():
        lines += [f".SS distdoctor {name}", *_prose(command.help or "")]
        lines += [line for one in command.params if one.param_type_name == "argument" for line in _option(one)]
        for group, options in option_groups(command.params):
            lines += [f".PP\n.B {_text(group)}", *(line for option in options for line in _option(option))]
        lines += _prose(command.epilog or "")
    lines += [".SH OPTIONS", *(line for option in program.params for line in _option(option))]
    lines += [".SH EXIT STATUS", *_prose(status), ".SH SEE ALSO", SEE_ALSO]
    return "\n".join(lines) + "\n"


def completion(shell: str) -> str:
    """The shell's part of the completion, as the program itself gives it."""
    return _output([], **{VARIABLE: f"source_{shell}"}).strip() + "\n"


def help_pages(columns: int = 80) -> dict[Path, str]:
    """Return the help of the program and of each command that people type, by its file below tests/cli/help."""
    pages = {HELP / f"{name}.txt": _output([name, "--help"], COLUMNS=str(columns)) for name in COMMANDS}
    return {HELP / "distdoctor.txt": _output(["--help"], COLUMNS=str(columns)), **pages}


def _output(words: list[str], **env: str) -> str:
    program = f"import sys; sys.argv = {['distdoctor', *words]}; from distdoctor.__main__ import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def _split(text: str) -> tuple[str, str]:
    """Return the text without its part on exit statuses, and that part."""
    before, _, status = text.partition(f"\b\n{STATUS}\n")
    return before.strip(), f"\b\n{status.partition(chr(10) * 2)[0]}"


def _usage(command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    return " ".join(["[options]", *(_text(one.metavar or one.name.upper()) for one in arguments)])


def _prose(text: str) -> Iterator[str]:
    """Paragraphs; those that begin with a backspace keep their lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        kept = paragraph.startswith("\b\n")
        body = paragraph.removeprefix("\b\n")
        if kept:
            yield from (".PP", ".nf", *map(_text, body.splitlines()), ".fi")
        else:
            yield from (".PP", _text(" ".join(body.split())))


def _option(option: Any) -> Iterator[str]:
    if getattr(option, "hidden", False):
        return
    if option.param_type_name == "argument":
        yield from (".TP", f".I {_text(option.metavar or option.name.upper())}", _text(option.help or ""))
        return
    value = "" if option.is_flag or option.count else f" \\fI{_text(option.metavar or 'VALUE')}\\fR"
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in sorted((*option.opts, *option.secondary_opts), key=len))
    yield from (".TP", f"{names}{value}", _text(option.help or ""))


def _text(text: str) -> str:
    """Text as roff takes it: no escapes, no requests, hyphens that can be copied."""
    told = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{told}" if told.startswith((".", "'")) else told


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(page())
    else:
        completions = {path: completion(shell) for shell, path in COMPLETIONS.items()}
        for path, text in {PAGE: page(), **completions, **help_pages()}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
