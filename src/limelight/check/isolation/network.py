"""Forbids a process the network: it gets namespaces of its own, one of them a network without connections."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from limelight.systems import c_function

NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000  # flags of unshare(2)


def forbid_network() -> bool:
    """Leave the network of the system, for this process and all that it starts; False if this fails."""
    unshare = c_function("unshare")
    if unshare is None:  # only Linux has it
        return False
    if unshare(NEW_NETWORK) == 0:  # root may do this directly
        return True
    user, group = os.getuid(), os.getgid()
    if unshare(NEW_USER | NEW_NETWORK) != 0:
        return False
    with suppress(OSError):  # the same user in the new namespace
        Path("/proc/self/setgroups").write_text("deny", "utf-8")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", "utf-8")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", "utf-8")
    return True


def limit_processes(number: int) -> None:
    """Limit the processes of a user namespace, in which the other processes of the user do not count."""
    import resource

    kernel = [int(part) for part in re.findall(r"\d+", os.uname().release)[:2]]
    if os.getuid() != 0 and kernel >= [5, 14]:
        resource.setrlimit(resource.RLIMIT_NPROC, (number, number))


@cache
def can_forbid_network() -> bool:
    """Whether this system allows it; tried in another process."""
    code = "import sys; from limelight.check.isolation.network import forbid_network as f; sys.exit(not f())"
    return subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
