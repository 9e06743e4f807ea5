"""Lines of services that run jobs: SageMaker, Vertex AI, AWS Batch, Azure ML, SkyPilot, ColossalAI, W&B."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Wording

_PROGRAM = r"(?:job|run|training|torchrun|python[\d.]*|script|launcher)"
DIALECT = Dialect(
    ends=(
        Wording(
            ("PreemptionError", "got pre-empted", "pre-emption warning"),  # Azure's
            r"PreemptionError: |[Nn]odes? of this job got pre-?empted",
            "preempted",
        ),
        Wording(
            "Host EC2 (instance ", r"Host EC2 \(instance \S{1,40}\) terminated", "instance terminated"
        ),  # AWS Batch's
        Wording("ran out-of-memory and exited", "", "out of memory"),  # Vertex AI's
        Wording(  # SageMaker's, and Vertex AI's
            ("ExecuteUserScriptError", "AlgorithmError: framework error", "exited with a non-zero status of "),
            r"ExecuteU|AlgorithmE|replica \S{1,80} exited with a non-zero status of \d",
            "failed",
        ),
        Wording(
            (
                "an exception on one of the ranks",
                "Error: failed to run torchrun",  # ColossalAI's
                "failed with return code list: [",  # SkyPilot's
            ),
            "",
            "failed",
        ),
        Wording(  # messages of wrappers, Go programs, W&B and Ray about the end of a job
            (
                *(
                    " with status ",
                    "exit status ",
                    "exit_status=",
                    ", rc=",
                    "=FAILED",
                    ": FAILED",
                    " (failed ",
                    "' failed",
                ),
                " failed with",
            ),
            rf"\b{_PROGRAM}\b(?:(?!\b{_PROGRAM}\b).){{0,40}}\b(?:ended|finished|exited|completed"
            r"|terminated|done|failed)\b.{0,40}(?:\bwith (?:exit )?status|exit_status=|\brc=)[: ]?[1-9]"
            r"|\b(?:[Jj]ob|[Rr]un|[Tt]raining)\b.{0,60}\b(?:state|[Ss]tatus)(?:=|: )FAILED\b"
            r"|^wandb: .{0,80}(?:\(failed |Program failed with code )[1-9]"
            r"|(?:^|: )exit status (?!137)(?P<code>[1-9]\d{0,2})$|^Job 'raysubmit_\w{1,40}' failed",
            "failed",
        ),
    )
)
