"""Whom the job runs as, and what of it the host takes away or keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Account:
    """The user of this process."""

    uid: int = 0
    known: bool = True
    """Whether the user database (/etc/passwd) has an entry for this number."""
    named: str = ""
    """The variable that getpass.getuser() takes the name from: LOGNAME, USER, LNAME or USERNAME; empty: none is set."""
    home: str | None = None
    """HOME as it is set; None where it is not."""
    home_error: str = ""
    """The errno's name where nothing can be written there, as EACCES; ENOENT where there is no such folder."""
    home_of_entry: str = ""
    """The home that the user's entry names; empty: there is no entry, or it is not known."""
    remove_ipc: bool | None = None
    """RemoveIPC= of systemd-logind; None where it does not run here, or where its setting is not known."""
    lingers: bool = False
    """The user's manager stays when its last session ends (loginctl enable-linger)."""
    in_session: bool = False
    """This process belongs to a login session of its user, or to the user's manager (its cgroup)."""
    allocator: tuple[str, str] | None = None
    """Variable and value where torch's allocator is set to expandable segments: they are shared by pidfd_getfd(2)."""
    systemd: bool | None = None
    """Whether it runs the services here (sd_booted(3)): not in most containers, nor on machines with another init."""
    descriptors: str = ""
    """The errno's name with which that is refused to a process that is not the other's parent; asked only then."""
    withheld: tuple[str, ...] = ()
    """What nobody may do here, root neither, as in a container: ``NET_ADMIN`` and ``SYS_ADMIN`` where they are not in
    the bounding set, and the paths below that are mounted read-only."""
    missing_programs: tuple[str, ...] = ()
    """Of those that fixes use (``PROGRAMS``), the ones that are not installed."""


NET_ADMIN, SYS_ADMIN = "CAP_NET_ADMIN", "CAP_SYS_ADMIN"
HOSTS_FILE, NAME_SOURCES, KERNEL_SETTINGS = "/etc/hosts", "/etc/nsswitch.conf", "/proc/sys"
PROGRAMS = ("ip", "sysctl")
