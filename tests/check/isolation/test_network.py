"""The checked code has no network and few processes, where the system can forbid them."""

import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from limelight.check.isolation.network import can_forbid_network
from limelight.check.isolation.parent import Limits, check_file

MASK = """
import {module}
import torch

def causal_mask(size):
    {body}
    return torch.ones(size, size).tril().bool()
"""


@pytest.mark.skipif(not can_forbid_network(), reason="this system cannot forbid the network")
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_forbidden_if_the_limits_say_so(tmp_path: Path, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        call = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2).close()"
        (tmp_path / "mask.py").write_text(MASK.format(module="socket", body=call))
        found = check_file(tmp_path / "mask.py", limits=Limits(seconds=10, network=network))
        was_called = bool(select.select([server], [], [], 0)[0])
    assert was_called == network
    verdicts = {finding.verdict for report in found.reports for finding in report.findings}
    assert ("pass" in verdicts) == network


FORK_ONCE = """if not hasattr(causal_mask, "has_forked"):
        causal_mask.has_forked = True
        for _ in range(30):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        time.sleep(1)"""


@pytest.mark.parametrize(("processes", "broken"), [(10, ["runs"]), (64, [])])
def test_the_number_of_processes_is_limited(tmp_path: Path, processes: int, broken: list[str]) -> None:
    (tmp_path / "mask.py").write_text(MASK.format(module="os, time", body=FORK_ONCE))
    (report,) = check_file(tmp_path / "mask.py", limits=Limits(seconds=10, processes=processes)).reports
    assert [finding.promise for finding in report.broken] == broken
    if broken:
        assert "ended the process" in report.broken[0].got


FORKS = """
import os, resource, time
from limelight.check.isolation.network import forbid_network, limit_processes
os.getuid() or os.setuid(65534)
assert forbid_network()
limit_processes(10)
children = []
try:
    for _ in range(30):
        children.append(os.fork())
        if not children[-1]:
            time.sleep(1)
            os._exit(0)
except BlockingIOError:
    pass
print(len(children))
"""


@pytest.mark.skipif(not can_forbid_network(), reason="this system has no namespaces")
def test_a_user_other_than_root_cannot_start_more_processes() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=False)
    assert done.stdout == "9\n", done.stderr
    unlimited = FORKS.replace("limit_processes(10)\n", "")
    done = subprocess.run([sys.executable, "-c", unlimited], capture_output=True, text=True, check=False)
    assert done.stdout == "30\n", done.stderr
