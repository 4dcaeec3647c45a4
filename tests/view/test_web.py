"""Runs the JavaScript tests of the page with node."""

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent / "web"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here: apt-get install nodejs")
def test_the_javascript_tests_pass() -> None:
    files = sorted(map(str, TESTS.glob("*.test.js")))
    done = subprocess.run(["node", "--test", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = int(done.stdout.split("# pass ")[1].split()[0])
    assert passed >= len(files) > 5
