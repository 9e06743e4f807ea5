"""A check's page with what its file does not say in words: the messages by which a log shows the failure."""

from __future__ import annotations

from distdoctor.judge.catalog import Check

HEADING = "Messages"


def whole_page(check: Check) -> str:
    """The page of ``distdoctor explain`` and of the documentation. The messages are in the words that are looked for,
    without the values between them."""
    wordings = ", ".join(f"`{words}`" for words in messages(check))
    ended = "; ".join(dict.fromkeys(line.ended.described() for line in check.log if line.ended))
    lines = [f"Looked for in logs: {wordings}"] if wordings else []
    lines += [f"Ends that launchers report there, in their own words: {ended}"] if ended else []
    if not lines:
        return check.page
    return "\n".join((check.page.rstrip(), "", HEADING, "-" * len(HEADING), *lines, ""))


def messages(check: Check) -> list[str]:
    """Return what stands in a log that shows the failure, or something that it may be the cause of."""
    shown = (line for line in check.log if line.shows not in ("noise", "exception"))
    words = (" ".join(literal.replace("`", "'").split()) for line in shown for literal in line.literals)
    return [literal for literal in dict.fromkeys(words) if literal]
