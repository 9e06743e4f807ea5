"""Lines that are written of failures of the stage launch."""

from __future__ import annotations

CAUSES: tuple[tuple[str, str], ...] = (
    (
        "launch/ray-token",
        "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: Authentication token is missing or incorrect."
        " Note: RAY_AUTH_MODE is currently 'disabled' (not 'token').",
    ),
    (
        "launch/ray-token",
        "ray.exceptions.AuthenticationError: Token authentication is enabled but no authentication token was found.",
    ),
    (
        "launch/srun-step-blocked",
        "srun: error: Unable to create step for job 1234: Unable to contact slurm controller (connect failure)",
    ),
    ("launch/srun-step-blocked", "srun: fatal: Could not establish a configuration source"),
    ("launch/srun-step-blocked", "srun: fatal: Unable to process configuration file"),
    ("launch/ssh-unreachable", "user@gpu02: Permission denied (publickey,password)."),
    ("launch/srun-step-blocked", "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)"),
    ("launch/srun-step-blocked", "srun: Job 9479148 step creation still disabled, retrying (Requested nodes are busy)"),
    ("launch/ssh-unreachable", "worker-2: user@worker-2: Permission denied (gssapi-keyex,gssapi-with-mic,password)."),
    (
        "launch/srun-step-blocked",
        "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x140000.",
    ),
    (
        "launch/srun-step-blocked",
        "srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=13 != "
        "SLURM_TRES_PER_TASK=cpu=8",
    ),
    (
        "launch/srun-step-blocked",
        "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
    ),
    (
        "launch/container-not-started",
        "docker: Error response from daemon: manifest for nvcr.io/x:1 not found: manifest unknown: manifest unknown.",
    ),
    (
        "launch/container-not-started",
        "docker: Error response from daemon: pull access denied for me/train, repository does not exist.",
    ),
    (
        "launch/container-not-started",
        "slurmstepd: error: pyxis:     [ERROR] URL https://r.io/v2/x/manifests/1 returned error code: 401 Unauthorized",
    ),
    (
        "launch/container-not-started",
        "slurmstepd: error: pyxis:     [ERROR] URL https://r.io/v2/x/manifests/1 returned error code: 429 Too Many",
    ),
    (
        "launch/container-not-started",
        "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /lustre/img/torch.sqsh",
    ),
    (
        "launch/container-not-started",
        "FATAL:   could not open image /s/t.sif: failed to retrieve path for /s/t.sif: no such file or directory",
    ),
    (
        "launch/container-not-started",
        "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data at /raid/data: No such file or directory",
    ),
    (
        "launch/container-not-started",
        "docker: Error response from daemon: invalid mount config: bind source path does not exist: /data.",
    ),
    (
        "launch/container-not-started",
        "FATAL:   container creation failed: mount /d->/d error: while mounting /d: mount source /d doesn't exist",
    ),
    (
        "launch/container-not-started",
        'docker: Error response from daemon: OCI runtime create failed: exec: "go": executable file not found in $PATH',
    ),
    ("launch/container-not-started", 'FATAL:   "torchrun": executable file not found in $PATH'),
    (
        "launch/container-not-started",
        "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
    ),
    (
        "launch/ray-node-missing",
        "ValueError: Can't find a `node_ip_address.json` file from /tmp/ray/session_2026-01-27_23-34-45_963846_7. for "
        "60 seconds. A ray instance hasn't started. Did you do `ray start` or `ray.init` on this host?",
    ),
    (
        "launch/ray-node-missing",
        "RuntimeError: No node info found matching attributes: '' when trying to resolve node to connect to.",
    ),
)

SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        "launch/ray-node-missing",
        "2026-03-19 14:58:50,134 INFO node.py:1084 -- Can't find a `node_ip_address.json` file from /tmp/ray/session_"
        "2026-03-19_14-26-07_915096_1. Have you started Ray instance using `ray start` or `ray.init`?",
    ),
    (
        "launch/ray-token",
        "[2026-06-17 12:09:46,886 W 1 1] gcs_client.cc:205: Failed to get cluster ID from GCS server: Unauthenticated: "
        "RPC error: InvalidAuthToken: Authentication token is missing or incorrect",
    ),
    (
        "launch/srun-step-blocked",
        "srun: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: Permission denied, retrying in 1sec "
        "up to 60sec",
    ),
    ("launch/srun-step-blocked", "srun: error: timeout waiting for task launch, started 0 of 1 tasks"),
    (
        "launch/srun-step-blocked",
        "srun: error: Task launch for StepId=847293.0 failed on node nid003078: Communication connection failure",
    ),
    (
        "launch/srun-step-blocked",
        "srun: error: Unable to allocate resources: Requested node configuration is not available",
    ),
    ("launch/ssh-unreachable", "kex_exchange_identification: Connection closed by remote host"),
    ("launch/ssh-unreachable", "Connection timed out during banner exchange"),
    ("launch/ssh-unreachable", "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @"),
    ("launch/srun-step-blocked", "sbatch: error: Invalid generic resource (gres) specification"),
    (
        "launch/srun-step-blocked",
        "[2019-09-24T10:10:06] [321.0] error: spank: required plugin spank_pyxis.so: init_post_opt() failed with rc=-1",
    ),
    ("launch/container-not-started", "slurmstepd: error: pyxis: couldn't start container"),
    (
        "launch/container-not-started",
        "FATAL:   While making image from oci registry: error fetching image to cache: conveyor failed to get",
    ),
    (
        "launch/container-not-started",
        "docker: Error response from daemon: Conflict. The container name is already in use by container 4f1.",
    ),
    (
        "launch/container-not-started",
        "  Warning  Failed     3m (x4 over 5m)  kubelet  Error: CreateContainerConfigError",
    ),
    ("launch/container-not-started", "train-worker-1   0/1     CreateContainerConfigError   0          5m"),
    ("launch/container-not-started", "docker: Error response from daemon: OCI runtime create failed: no such file"),
)
