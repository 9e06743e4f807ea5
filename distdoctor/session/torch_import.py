"""Waiting for the import of torch, which goes on in a process of its own from the beginning."""

from __future__ import annotations

import time

from distdoctor.ranks.supervisor import Zygote
from distdoctor.ranks.torch_info import TorchInfo
from distdoctor.session.recorder import Recorder

WHAT = "importing torch"


async def wait_for_torch(recorder: Recorder, zygote: Zygote, stage: str) -> TorchInfo:
    """What torch is here, once its import has ended. ``stage`` is the one that waits for it."""
    began, options = time.monotonic(), recorder.options
    recorder.observer.waits(WHAT, recorder.started + options.wait + options.timeout - began)
    try:
        torch = await zygote.torch()
    finally:
        recorder.observer.waited(WHAT)
        recorder.put_down(stage, time.monotonic() - began)
    recorder.note_torch(torch)
    return torch
