"""The scheduler does not start the job's step.

## What you see
`srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)`, again and again.

## Why it happens
From Slurm 20.11 on, steps do not share resources. An srun inside another srun, or inside an interactive one, waits for
the resources of the outer step.

## Fix
Let the step share the resources of the outer one: `srun --overlap ...`, or `export SLURM_OVERLAP=1`.

## Confirm with
`squeue -s -j $SLURM_JOB_ID` lists the step that holds the resources.

## When it is harmless
srun prints the line once and the step then starts.

## See also
launch/ssh-unreachable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("the steps of the job", "squeue -s -j JOBID")
LOG = (
    Line(
        "Unable to create step for job",
        r"Unable to create step for job \S{1,24}: (?P<why>.{1,80})",
        unless="busy|disabled|slurm controller|send/recv|Zero Bytes",
        told="SLURM does not create the job's step",
        fix="Request from srun no more than the job has, within its time: the missing resource is after the colon.",
    ),
    Line(
        "Unable to create step for job",
        r"Unable to create step for job \S{1,24}: (?P<why>.{0,60}(?:busy|disabled).{0,20})",
    ),
    Line(
        "Unable to create step for job",  # src/common/slurm_errno.c
        r"Unable to create step for job \S{1,24}: .{0,40}(?:slurm controller|send/recv|Zero Bytes)",
        told="srun cannot reach SLURM's controller",
        fix="Restart when `scontrol ping` on that host prints UP. If it is UP on other hosts, fix this host's path to "
        "it: name, port (SlurmctldPort, 6817), in a container slurm.conf and munge.",
    ),
    Line(
        ("set by two different environment variables", "are mutually exclusive"),  # src/common/slurm_opt.c
        r"srun: fatal: .{1,200}(?:set by two different environment variables|are mutually exclusive)",
        told="srun has two settings that contradict each other",
        fix="Set it as an option of srun (srun --cpus-per-task=N, --mem=M), and unset the variable in the message. A "
        "job submitted from within another inherits its variables.",
    ),
    Line(
        "CPU binding outside of job step allocation",
        "srun: error: ",
        told="srun binds to CPUs that the step does not have",
        fix="Unset SLURM_CPU_BIND, SLURM_CPU_BIND_LIST and SLURM_CPU_BIND_TYPE (a job submitted from within another "
        "inherits them), or use srun --cpu-bind=none.",
    ),
    Line(
        ("Unable to process configuration file", "Could not establish a configuration source"),  # read_config.c
        "(?:srun|sbatch|salloc): fatal: ",
        told="srun finds no readable SLURM configuration",
        fix="Start it on a host of the cluster that has SLURM's configuration, readable by this user. Into a "
        "container, mount the host's slurm.conf (or set SLURM_CONF) and munge's socket.",
    ),
    Line(
        "s_p_parse_file: unable to status file",
        "(?:srun|sbatch|salloc) ?: error: ",
        shows="symptom",
        why="srun cannot read its slurm.conf and retries for a minute, perhaps with success",
    ),
    Line(("step creation still disabled", "step creation temporarily disabled"), shows="end"),
    Line("Step created for StepId=", shows="noise", why="SLURM created the step later"),
    Line(
        ("Task launch for ", "Application launch failed", " launch failed: ", "waiting for task launch"),
        r"srun: error: (?:Task launch for \S{1,40} failed on node (?P<host>\S{1,64}):|Application launch failed"
        r"|timeout waiting for task launch"
        r"|task \d+ launch)",
        shows="symptom",
        why="the node's reason is after the colon; slurmd's own log has more",
        unless="credential expired",
    ),
    Line(
        (
            "Unable to confirm allocation for job",
            "Unable to allocate resources: ",
            "Batch job submission failed: ",
            "Invalid generic resource (gres) specification",
            "Timed out waiting for job step to complete",
            "Munge encode failed",
            "Munge decode failed",
            "slurm_set_addr: Unable to resolve",
            "required plugin spank_",
        ),
        r"(?:srun|sbatch|salloc|slurmstepd): error: |\[\d{1,10}\.\w{1,12}\] error: ",  # the latter in slurmd's log
        unless=r"spank_pyxis\.so: task_init",
        shows="symptom",
        why="the job did not start, for the reason in that line",
    ),
)
