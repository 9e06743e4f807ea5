"""The scheduler does not start the job's step.

What you see
------------
`srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)`, again and again.

Why it happens
--------------
From Slurm 20.11 on, steps do not share resources: an srun within an srun, or in an interactive one, waits for what the
outer step holds.

Fix
---
srun --overlap, or SLURM_OVERLAP=1.

When it is harmless
-------------------
Where it is printed once and the step then starts.

See also
--------
launch/ssh-unreachable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("which steps the job has", "squeue -s -j JOBID")
LOG = (
    Line(
        "Unable to create step for job",
        r"Unable to create step for job \S{1,24}: (?P<why>.{1,80})",
        unless="busy|disabled|slurm controller|send/recv|Zero Bytes",
        told="SLURM does not make the job's step",
        fix="Ask srun for no more than the job has, and within its time: what is missing stands behind the colon.",
    ),
    Line(
        "Unable to create step for job",
        r"Unable to create step for job \S{1,24}: (?P<why>.{0,60}(?:busy|disabled).{0,20})",
    ),
    Line(
        "Unable to create step for job",  # src/common/slurm_errno.c
        r"Unable to create step for job \S{1,24}: .{0,40}(?:slurm controller|send/recv|Zero Bytes)",
        told="srun does not get through to SLURM's controller",
        fix="Start again when `scontrol ping` says on that host that the controller is UP; where it is UP for others, "
        "the host does not reach it: its name, its port (SlurmctldPort, 6817), in a container slurm.conf and munge.",
    ),
    Line(
        ("set by two different environment variables", "are mutually exclusive"),  # src/common/slurm_opt.c
        r"srun: fatal: .{1,200}(?:set by two different environment variables|are mutually exclusive)",
        told="srun is told one thing in two ways",
        fix="Tell it to srun itself, as an option (srun --cpus-per-task=N, --mem=M), and unset what the line names and "
        "is not meant: a job that is submitted from within another inherits that one's variables.",
    ),
    Line(
        "CPU binding outside of job step allocation",
        "srun: error: ",
        told="srun is told to bind to processors that the step does not have",
        fix="unset SLURM_CPU_BIND, SLURM_CPU_BIND_LIST and SLURM_CPU_BIND_TYPE, which a job inherits that is submitted "
        "from within another; or srun --cpu-bind=none.",
    ),
    Line(
        ("Unable to process configuration file", "Could not establish a configuration source"),  # read_config.c
        "(?:srun|sbatch|salloc): fatal: ",
        told="srun finds no configuration of SLURM that it can read",
        fix="Start it on a host of the cluster that has SLURM's configuration, readable by this user; into a container "
        "put the host's slurm.conf (SLURM_CONF names another place) and munge's socket.",
    ),
    Line(
        "s_p_parse_file: unable to status file",
        "(?:srun|sbatch|salloc) ?: error: ",
        shows="symptom",
        why="srun cannot read its slurm.conf, and tries for a minute: whether it could then, this line does not say",
    ),
    Line(("step creation still disabled", "step creation temporarily disabled"), shows="end"),
    Line("Step created for StepId=", shows="noise", why="the step was made after all"),
    Line(
        ("Task launch for ", "Application launch failed", " launch failed: ", "waiting for task launch"),
        r"srun: error: (?:Task launch for \S{1,40} failed on node (?P<host>\S{1,64}):|Application launch failed"
        r"|timeout waiting for task launch"
        r"|task \d+ launch)",
        shows="symptom",
        why="what stands behind the colon is what srun was told by the node; slurmd's own log has more",
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
        why="the job did not begin, for what that line says",
    ),
)
