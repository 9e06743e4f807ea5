"""A container does not start.

What you see
------------
`pyxis: couldn't start container`, `docker: Error response from daemon: ...`, apptainer's `FATAL: ...`, a pod in
`ErrImagePull` or `CreateContainerConfigError`; on the other nodes ranks that wait for those who never came.

Why it happens
--------------
The image is not there under that name, may not be pulled, or lies where this host does not see it; a folder that is to
be mounted is not on the host; or the program is not in the image.

Fix
---
Start the image alone on that host, with `hostname` as its program, and mend what the runtime says until it runs.

When it is harmless
-------------------
Where it was tried again, and started.

See also
--------
gpu/none-visible, host/disk-full, store/nodes-missing
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = (
    "what the runtime says where it starts the image on that host with nothing but hostname",
    "docker run --rm IMAGE hostname",
)
NO_IMAGE = "The image is not there, or may not be pulled"
FIX_NO_IMAGE = (
    "Name an image that the registry has, and log in on every node where it is private (docker login, enroot's "
    ".credentials, an imagePullSecret)."
)
FIX_NO_FILE = "Put it where every node sees it under the same path, or name the path that this host has."
NO_PROGRAM = "The program is not in the image"
FIX_NO_PROGRAM = "Name the program by a path that it has in the image, and executable there."
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
        told="The registry refuses so many pulls",
        fix="Import the image once (enroot import -o IMAGE.sqsh docker://...), and start that file on all nodes.",
    ),
    Line(
        "[ERROR] No such file or directory: ",  # enroot's, as pyxis hands it on
        r"error: pyxis: +\[ERROR\] No such file or directory: (?P<file>\S{1,300})",
        told="The image is not on this host",
        fix=FIX_NO_FILE,
    ),
    Line(
        "could not open image ",  # Apptainer's, and Singularity's
        r"\bFATAL: {1,4}could not open image (?P<file>\S{1,300}): .{0,300}no such file or directory",
        told="The image is not on this host",
        fix=FIX_NO_FILE,
    ),
    Line(
        ("enroot-mount: failed to mount: ", "bind source path does not exist: ", "mount source "),
        r"enroot-mount: failed to mount: .{1,400}: No such file or directory|bind source path does not exist: "
        r"|\bFATAL: .{1,300}: mount source \S{1,200} doesn't exist",
        told="A folder that is to be mounted is not on this host",
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
        why="why stands behind the last colons",
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
        why="why stands in the lines of enroot above it",
    ),
    Line(
        ("OCI runtime create failed", "failed to create shim task", "rror: failed to start container"),
        shows="symptom",
        why="the container was not started; why stands behind the last colons",
    ),
    Line(
        "docker: Error response from daemon: ",  # what docker run ends with
        shows="symptom",
        why="why stands behind the last colons",
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
        why="kubelet tries again, and it may have started: `kubectl describe pod` says what is missing",
    ),
    Line(" Started container ", shows="noise", why="it came"),
)
