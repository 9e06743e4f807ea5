"""torch is not installed in the Python that runs this.

## What you see
`ModuleNotFoundError: No module named 'torch'` on the affected nodes. The other nodes wait for them.

## Why it happens
distdoctor runs in another Python environment than the job: pipx and uv tool give it one of its own. Or the job's
environment was not activated, or differs between nodes.

## Fix
Run distdoctor with the job's Python, `python -m distdoctor check`, or install torch into this environment, `pip install
torch`.

## Confirm with
`python -c "import torch; print(torch.__version__)"` prints the same version on every node.

## When it is harmless
With --until network, which needs no torch.

## See also
environment/torch-shadowed, environment/torch-broken, environment/version-mismatch
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    fixes_by_command,
    install_torch_command,
    names_of,
    nodes_by_torch_cause,
    together,
    torch_error_evidence,
)

SEVERITY = "fail"
THERE = (
    "Start the job on every node with the Python that has torch, or install torch for the one in use. Confirm with: "
    "`which python torchrun` in the job."
)
LOG = (
    Line(
        "No module named",
        r"(?:ModuleNotFoundError|ImportError|Error): No module named ['\x22]?torch['\x22]?$",
        fix=THERE,
    ),
    Line("torchrun", r"\btorchrun: (?:command )?not found", fix=THERE),
)
PREVENTS = "plan agreed"
LOOKS_AT = ("identity.torch",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = nodes_by_torch_cause(cluster, ["missing"]).get("missing")
    if not bad:
        return
    pythons = dict.fromkeys(n.identity.executable for n in bad if n.identity.executable)
    where = f" in {together(pythons)}" if pythons else ""
    yield Finding.about(
        bad,
        f"torch is not installed{where} on {names_of(bad)}.",
        evidence=map(torch_error_evidence, bad),
        fixes=(
            Fix.on(bad, "Run distdoctor with the job's Python: python -m distdoctor check ..."),
            *fixes_by_command(
                bad,
                "Install torch into this environment.",
                {node.name: install_torch_command(cluster, node) for node in bad},
                option=2,
            ),
        ),
    )
