"""The launcher cannot log in to a host.

## What you see
`ssh ... returned non-zero exit status 255`, `Permission denied (publickey)`, `Host key verification failed`, `pdsh:
command not found`.

## Why it happens
The launchers of DeepSpeed, Horovod and mpirun start the other nodes by ssh, without a password, and also their own
node.

## Fix
Install ssh keys from the first node to all nodes, including itself, `ssh-copy-id host1`; or start torchrun on every
node (DeepSpeed: --no_ssh).

## Confirm with
`for h in host0 host1; do ssh -o BatchMode=yes $h hostname; done` prints every host name without a question.

## When it is harmless
Never.

## See also
launch/srun-step-blocked
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("a login by ssh without a password", "ssh -o BatchMode=yes HOST hostname")
DAEMON = "a daemon of mpirun that cannot start, or cannot connect back, shows the same"
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
        why="git and rsync also use ssh; an sshd with too many logins at once (MaxStartups) shows the same",
        unless=r"\berror: (?:kex|ssh)_exchange",  # as sshd logs it, of any client
    ),
    Line(
        ("UNPROTECTED PRIVATE KEY FILE", "Bad owner or permissions on"),
        r"UNPROTECTED PRIVATE KEY FILE|Bad owner or permissions on \S{0,200}ssh",
        shows="symptom",
        why="ssh skips such a key and may have another (chmod 600 makes it acceptable)",
    ),
    Line(
        "Host key verification failed",
        told="The launcher does not trust a host's key",
        fix="Log in to that host by ssh once from the first node, or add its key to known_hosts there (ssh-keyscan "
        "HOST prints it). For a reinstalled host, remove the old key first: ssh-keygen -R HOST.",
    ),
    Line(
        "ssh: connect to host",
        r"ssh: connect to host (?P<host>\S{1,64}) port \d+: (?P<why>.{1,80})",
        told="The launcher cannot reach the sshd of a host",
        fix="Start the host and its sshd on that port (a container needs its own sshd). Or start torchrun on every "
        "node, which needs no ssh (DeepSpeed: --no_ssh).",
    ),
    Line(
        "ssh: Could not resolve hostname",
        r"ssh: Could not resolve hostname (?P<host>[^\s:]{1,253})",
        told="The launcher has a host name that does not resolve",
        fix="Use a name that resolves here, or the address, in the host file; or add the name to /etc/hosts.",
    ),
    Line("Cannot find launcher", r"launcher backend ['\x22]?pdsh|pdsh"),
    Line(
        "pdsh is not installed",
        told="The launcher needs pdsh, which is not installed",
        fix="Install pdsh on the first node, or choose another --launcher of DeepSpeed.",
    ),
    Line(
        "pdsh: command not found",
        told="The launcher needs pdsh, which is not installed",
        fix="Install pdsh on the first node, or choose another --launcher of DeepSpeed.",
    ),
    Line("unable to reliably start one or more daemons", shows="symptom", why=DAEMON),
    Line.of_end(Ended(("daemon lost",)), shows="symptom", why=DAEMON),
)
