"""Lines of MPI launchers: Open MPI and PRRTE, Hydra of MPICH and Intel MPI, PALS of HPE; and of Horovod."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import ENDS_OTHERS, Dialect, Wording

DIALECT = Dialect(
    prefixes=(
        # mpiexec --label of HPE (PALS): a host by its whole name, or as HPE names nodes, and the same
        ("a", r"(?P<host>(?=[\w-]{1,63}\.\w|x\d{3,5}c\d)[a-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,6}) (?P<task>\d{1,6}): "),
        # Horovod, mpirun --timestamp-output
        (
            "a",
            r"(?:[A-Z][a-z]{2} ){2} ?\d{1,2} \d\d:\d\d:\d\d \d{4}\[(?:\d{1,9},)?(?P<rank>\d{1,6})\]"
            r"<std(?:out|err|diag)>: ?",
        ),
        # Open MPI
        (
            "[",
            r"\[(?P<host>(?=[\w.-]{0,63}[A-Za-z])\w[\w.-]{0,63}):(?P<pid>\d{1,9})\] "
            r"(?=\*\*\*|Signal|Failing|\[|mca|PMIX)",
        ),
    ),
    ends=(
        # Open MPI and PRRTE
        Wording(
            "exited on signal ",
            r"(?:process rank (?P<rank>\d{1,6}) with PID \d+ on node (?P<host>\S{1,253}) )?exited on signal "
            r"(?P<signal>\d{1,2})\b",
            launcher="mpirun",
        ),
        Wording(
            "Process name: [",  # of its fifth version behind the name of a daemon
            r"(?P<row>Process (?P<first>name)): \[(?:\[\d{1,9},\d{1,9}\]|[\w.-]{1,200}@\d{1,9}),(?P<rank>\d{1,6})\]",
            "first to fail",
            launcher="mpirun",
        ),
        Wording(
            (
                "MPI_ABORT was invoked",
                "application called MPI_Abort(",  # MPICH's
                "failed for some reason; your parallel process is",  # MPI_Init, pmix_init, orte_init
                "*** An error occurred in MPI_",  # Open MPI's ompi/errhandler
                "Local abort before MPI_INIT",
                "Local abort after MPI_FINALIZE",
                "Primary job  terminated normally, but",
                "noticed that process rank ",  # the next line may say how it ended
                "has exited due to process rank ",  # without MPI_Finalize; PRRTE's prterun says the same
                "plexec One of MPI processes was aborted.(",  # Fujitsu's, of PJM
                "components were able to be opened in the pml framework",
            ),
            r".{0,80}(?P<row>MPI_A)(?P<first>BORT was invoked on rank |bort\(MPI_COMM_WORLD, -?\d{1,9}\) - process )"
            r"(?P<rank>\d{1,6})|.",
            "gave up",
        ),
        Wording("time limit for job execution has been reached", "", "time limit"),  # mpirun --timeout, MPIEXEC_TIMEOUT
        Wording(
            ("lost communication with a remote daemon", "daemon has unexpectedly failed after launch"),
            "",
            "daemon lost",
        ),
        # Hydra of MPICH and Intel MPI
        Wording("KILLED BY SIGNAL: ", r"KILLED BY SIGNAL: (?P<signal>\d{1,2})\b", marks=ENDS_OTHERS),
        Wording("EXIT CODE: 1", r"EXIT CODE: (?P<code>1[34]\d)\b"),
        Wording("EXIT STRING: ", r"EXIT STRING: (?P<word>Segmentation fault)"),
        Wording("BAD TERMINATION OF ONE OF YOUR", "", "failed"),
        # HPE's mpiexec (PALS)
        Wording(
            (" died from signal ", " exited with code "),
            r"^(?:(?P<host>[\w.-]{1,253}): )?rank (?P<rank>\d{1,6}) (?:died from signal (?P<signal>\d{1,2})"
            r"|exited with code (?P<code>\d{1,3}))\b",
            launcher="pals",
        ),
        Wording(
            "shepherd died from signal",  # one on each node
            r"^(?:(?P<host>[\w.-]{1,253}): )?shepherd died from signal \d",
            "launcher died",
        ),
    ),
)
