"""A container does not start.

## What you see
`pyxis: couldn't start container`, `docker: Error response from daemon: ...`, apptainer's `FATAL: ...`, or a pod in
`ErrImagePull` or `CreateContainerConfigError`. Ranks on the other nodes wait for ranks that never start.

## Why it happens
The registry has no image of that name or refuses the pull, or the host does not see the image file. Or the host lacks a
folder to mount, or the image lacks the program.

## Fix
Start the image alone on that host and fix each error of the runtime until it runs: `docker run --rm IMAGE hostname`.

## Confirm with
`docker run --rm IMAGE hostname` prints a host name on every node.

## When it is harmless
A later try started the container.

## See also
gpu/none-visible, host/disk-full, store/nodes-missing
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("the runtime's output when it starts the image alone on that host", "docker run --rm IMAGE hostname")
NO_IMAGE = "The image does not exist, or the registry refuses the pull"
FIX_NO_IMAGE = (
    "Name an image that the registry has; for a private one, log in on every node (docker login, enroot's "
    ".credentials, an imagePullSecret)."
)
FIX_NO_FILE = "Copy it to a path that every node sees, or name the path on this host."
NO_PROGRAM = "The image lacks the program"
FIX_NO_PROGRAM = "Name the program by its path in the image, and make it executable there."
LOG = (
    Line(
        ("manifest unknown", "pull access denied for ", "unauthorized: authentication required"),
        r"(?:Error response from daemon|\bError): .{0,300}(?:manifest unknown|pull access denied|unauthorized: auth)",
        told=NO_IMAGE,
        fix=FIX_NO_IMAGE,
    ),
    Line(
        "returned error code: ",  # enroot's
        r"\[ERROR\] URL \S{1,300} returned error code: (?:401|403|404)\b",
        told=NO_IMAGE,
        fix=FIX_NO_IMAGE,
    ),
    Line(
        "returned error code: 429",
        r"\[ERROR\] URL \S{1,300} returned error code: 429\b",
        told="The registry refuses the pull: too many requests",
        fix="Import the image once (enroot import -o IMAGE.sqsh docker://...), and start that file on all nodes.",
    ),
    Line(
        "[ERROR] No such file or directory: ",  # enroot's, as pyxis hands it on
        r"error: pyxis: +\[ERROR\] No such file or directory: (?P<file>\S{1,300})",
        told="This host does not have the image",
        fix=FIX_NO_FILE,
    ),
    Line(
        "could not open image ",  # Apptainer's, and Singularity's
        r"\bFATAL: {1,4}could not open image (?P<file>\S{1,300}): .{0,300}no such file or directory",
        told="This host does not have the image",
        fix=FIX_NO_FILE,
    ),
    Line(
        ("enroot-mount: failed to mount: ", "bind source path does not exist: ", "mount source "),
        r"enroot-mount: failed to mount: .{1,400}: No such file or directory|bind source path does not exist: "
        r"|\bFATAL: .{1,300}: mount source \S{1,200} doesn't exist",
        told="This host does not have a folder that the container mounts",
        fix=FIX_NO_FILE,
    ),
    Line(
        ("executable file not found in $PATH", 'exec: "', "enroot-switchroot: failed to execute: "),
        r"(?:start(?:ing)? container|shim task|OCI runtime).{0,300}exec: \"[^\"]{1,200}\": (?:executable file not found"
        r"|stat .{1,200}: no such file or directory|permission denied)"
        r"|\bFATAL: {1,4}\"[^\"]{1,200}\": executable file not found"
        r"|enroot-switchroot: failed to execute: .{1,200}: No such file or directory",
        unless='exec: "nvidia-',  # the host's
        told=NO_PROGRAM,
        fix=FIX_NO_PROGRAM,
    ),
    Line(
        "FATAL: ",
        r"\bFATAL: {1,4}(?:container creation failed|[Ww]hile (?:making image|pulling|extracting)|could not open image"
        r"|Unable to (?:pull|handle))",
        unless="mount source|no such file or directory",
        shows="symptom",
        why="the reason is after the last colon",
    ),
    Line(
        (
            "couldn't start container",
            "failed to create container filesystem",
            "failed to import docker image",
            "plugin spank_pyxis.so: task_init() failed",
        ),
        "slurmstepd: error: ",
        shows="symptom",
        why="the reason is in enroot's lines above it",
    ),
    Line(
        ("OCI runtime create failed", "failed to create shim task", "rror: failed to start container"),
        shows="symptom",
        why="the container did not start; the reason is after the last colon",
    ),
    Line(
        "docker: Error response from daemon: ",  # the last line of docker run
        shows="symptom",
        why="the reason is after the last colon",
    ),
    Line(
        (
            "Failed to pull image ",
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
            "InvalidImageName",
            "ErrImageNeverPull",
        ),
        shows="symptom",
        why="kubelet retries, and the container may have started: `kubectl describe pod` shows the reason",
    ),
    Line(" Started container ", shows="noise", why="the container started"),
)
