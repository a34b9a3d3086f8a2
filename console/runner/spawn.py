"""How children are started so that none outlives the one who started it.

A supervisor can be killed without a word (SIGKILL, a closed laptop, the OOM killer). On Linux each
child asks the kernel for a signal at its parent's death; elsewhere the next start finds the data
folder unlocked and the services recover as after a power cut.
"""

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import cache

_PR_SET_PDEATHSIG = 1
_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None


class Privileges(StrEnum):
    """How a child that refuses to run as root gets rid of it."""

    KEEP = "keep"  # we are not root
    NAMESPACE = "namespace"  # an unmapped user namespace: not root, yet owner of the same files
    NOBODY = "nobody"  # an unprivileged account, which must be given the files


@cache
def privileges_for_postgres() -> Privileges:
    """Postgres refuses root. Find out how to run it here."""
    if os.geteuid() != 0:
        return Privileges.KEEP
    probe = "import os; os.unshare(os.CLONE_NEWUSER); raise SystemExit(os.geteuid() == 0)"
    if _LINUX:
        found = subprocess.run(
            [sys.executable, "-ISc", probe], stderr=subprocess.DEVNULL, check=False
        )
        if found.returncode == 0:
            return Privileges.NAMESPACE
    return Privileges.NOBODY


def own_by_nobody(*folders: str | os.PathLike[str]) -> None:
    """Give folders and what is in them to the unprivileged account."""
    account = pwd.getpwnam("nobody")
    for folder in folders:
        for path, _, files in os.walk(folder):
            for name in ["", *files]:
                os.chown(os.path.join(path, name), account.pw_uid, account.pw_gid)


def child_setup(
    at_parent_death: signal.Signals, privileges: Privileges = Privileges.KEEP
) -> Callable[[], None]:
    """Return a ``preexec_fn``: drop privileges, then tie the child's life to this process."""
    parent = os.getpid()
    account = pwd.getpwnam("nobody") if privileges is Privileges.NOBODY else None

    def setup() -> None:
        os.umask(0o077)
        if privileges is Privileges.NAMESPACE:
            os.unshare(os.CLONE_NEWUSER)
        elif account is not None:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        # After the change of credentials, which would clear it.
        end_with_parent(at_parent_death)
        if os.getppid() != parent:
            os._exit(1)

    return setup


def end_with_parent(at_parent_death: signal.Signals) -> None:
    """Ask the kernel to send this process a signal when its parent dies (Linux only)."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, at_parent_death, 0, 0, 0)
