"""The launcher cannot log in to a host.

What you see
------------
`ssh ... returned non-zero exit status 255`, `Permission denied (publickey)`, `Host key verification failed`, `pdsh:
command not found`.

Why it happens
--------------
The launchers of DeepSpeed, Horovod and mpirun start the other nodes by ssh, without a password, and the own node too.

Fix
---
Set up ssh keys from the first node to all, itself among them; or start torchrun on every node (DeepSpeed: --no_ssh).

When it is harmless
-------------------
Never.

See also
--------
launch/srun-step-blocked
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("whether ssh works without a password", "ssh -o BatchMode=yes HOST hostname")
DAEMON = "a daemon of mpirun that cannot be started, or cannot reach back, looks the same"
LOG = (
    Line(
        "returned non-zero exit status 255",
        r"ssh (?:-o \S{1,80} |-p \d{1,5} ){0,4}(?P<host>[\w.:@-]{1,253}) hostname.{0,400}status 255"
        r"|ssh\b.{0,400}returned non-zero exit status 255",
    ),
    Line(
        "Permission denied (",  # OpenSSH's sshconnect2.c, with the ways to log in that the host would take
        r"Permission denied \([a-z,-]{0,80}(?:publickey|password|keyboard-interactive|gssapi-|hostbased)",
        unless=r"\bgit@|github|gitlab|bitbucket",
    ),
    Line(
        ("kex_exchange_identification: ", "ssh_exchange_identification: ", "during banner exchange"),
        r"(?:kex|ssh)_exchange_identification: \S|timed out during banner exchange",
        shows="symptom",
        why="git and rsync speak ssh, too; a sshd to which too many log in at once (MaxStartups) ends connections so",
        unless=r"\berror: (?:kex|ssh)_exchange",  # as sshd logs it, of whoever knocked there
    ),
    Line(
        ("UNPROTECTED PRIVATE KEY FILE", "Bad owner or permissions on"),
        r"UNPROTECTED PRIVATE KEY FILE|Bad owner or permissions on \S{0,200}ssh",
        shows="symptom",
        why="ssh does without such a key, and may have another (chmod 600 makes it one that it takes)",
    ),
    Line(
        "Host key verification failed",
        told="The launcher does not trust a host's key",
        fix="Log in to that host by ssh once from the first node, or put its key there into known_hosts (ssh-keyscan "
        "HOST shows it); a host that was set up anew has another key: ssh-keygen -R HOST forgets the old one.",
    ),
    Line(
        "ssh: connect to host",
        r"ssh: connect to host (?P<host>\S{1,64}) port \d+: (?P<why>.{1,80})",
        told="The launcher does not get through to the sshd of a host",
        fix="See that the host is up and its sshd listens on that port (a container needs one of its own); or start "
        "torchrun on every node, which needs no ssh (DeepSpeed: --no_ssh).",
    ),
    Line(
        "ssh: Could not resolve hostname",
        r"ssh: Could not resolve hostname (?P<host>[^\s:]{1,253})",
        told="The launcher is given a host name that has no address here",
        fix="Name the host as this one knows it, or by its address, in the host file; or add it to /etc/hosts.",
    ),
    Line("Cannot find launcher", r"launcher backend ['\x22]?pdsh|pdsh"),
    Line(
        "pdsh is not installed",
        told="pdsh, which the launcher starts the others with, is not installed",
        fix="Install pdsh on the first node, or let DeepSpeed start the nodes otherwise (--launcher).",
    ),
    Line(
        "pdsh: command not found",
        told="pdsh, which the launcher starts the others with, is not installed",
        fix="Install pdsh on the first node, or let DeepSpeed start the nodes otherwise (--launcher).",
    ),
    Line("unable to reliably start one or more daemons", shows="symptom", why=DAEMON),
    Line.of_end(Ended(("daemon lost",)), shows="symptom", why=DAEMON),
)
