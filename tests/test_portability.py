"""The commands on a system like Windows: Linux without what Windows does not have (tests/other_system)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from command import command
from support import STARTED, kill_started, must_fail, not_none

SOURCE = Path(__file__).parent.parent / "src"
OTHER_SYSTEM = Path(__file__).parent / "other_system"
SETTINGS = {
    "task.data.train": 300,
    "task.data.validation": 20,
    "task.data.test": 20,
    "model.width": 8,
    "train.batch": 5,
    "train.epochs": 10,
    "train.perfect": 0,
    "train.save_every": "100 steps",
}
TRAIN = ["train", "majority", *(f"--set={key}={value}" for key, value in SETTINGS.items())]
MASK = """
import torch

def causal_mask(size):
    {before}
    return torch.ones(size, size).{cut}().bool()
"""
_kill_processes = pytest.fixture(autouse=True)(kill_started)


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start Python on the other system."""
    folders = [str(OTHER_SYSTEM), str(SOURCE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    other = {"PYTHONPATH": os.pathsep.join(filter(None, folders)), "PYTHONWARNDEFAULTENCODING": "1"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | other,
    )
    STARTED.append(process)
    return process


def run(*arguments: str) -> tuple[int, str, str]:
    """The exit code and the output of Python on the other system."""
    process = start(*arguments)
    output, errors = process.communicate()
    return process.returncode, output, errors


# The negative control

DIFFERENCES = [
    "import fcntl",
    "import resource",
    "from importlib import import_module; import_module('fcntl')",
    "import os; os.fork()",
    "import os; os.killpg",
    "import signal; signal.SIGHUP",
    "import signal; signal.SIGKILL",
    "import ctypes; ctypes.CDLL(None)",
    "import subprocess; subprocess.Popen(['true'], pass_fds=[1])",
    "import os, select; select.select([os.pipe()[0]], [], [], 0)",
    "import os; os.open('.', os.O_RDONLY)",
    "import os; file = open('a', 'wb'); os.replace('a', 'b')",
    "import os; os.mkdir('c'); os.mkdir('d'); os.rename('c', 'd')",
]
RUN_EACH = """
import sys
for code in sys.argv[1:]:
    try:
        exec(code, {"__package__": "limelight", "__name__": "limelight.code"})
        print(code)
    except (ImportError, AttributeError, TypeError, ValueError, OSError):
        pass
"""


def check_differences(differences: list[str]) -> None:
    code, works, errors = run("-c", RUN_EACH, *differences)
    assert code == 0, errors
    assert works == ""


def test_the_other_system_has_nothing_that_windows_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_differences(DIFFERENCES)
    must_fail(check_differences, ["import os; os.replace"])


# R3, R4 and R6


def contents(folder: Path) -> dict[str, bytes]:
    """The files that must be the same bits: metrics, weights and the state of the optimiser."""
    files = [folder / "metrics.jsonl", *folder.glob("checkpoints/*/*.safetensors")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def wait_for_checkpoint(folder: Path) -> None:
    end = time.monotonic() + 120
    while not list(folder.glob("checkpoints/step-*")):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_run_is_locked_interrupted_and_resumed_to_the_same_bits(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    process = start("-m", "limelight", *TRAIN, "--out", str(there))
    wait_for_checkpoint(there)
    process.send_signal(signal.SIGSTOP)  # until the lock was tested
    code, _, errors = run("-m", "limelight", *TRAIN, "--out", str(there))
    assert code == 2
    assert f"limelight: {there} is in use by process {process.pid} on " in errors
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    errors = process.communicate()[1]
    assert process.returncode == 130, errors
    assert errors.endswith(f" and saved; resume with: python -m limelight train {there} --resume\n")
    code, _, errors = run("-m", "limelight", "train", str(there), "--resume")
    assert code == 0, errors
    assert "warning" not in errors
    assert command(*TRAIN, "--out", str(here)).returncode == 0
    assert contents(there) == contents(here)
    assert b"\r" not in (there / "metrics.jsonl").read_bytes()


# check


def test_the_verdicts_of_check_are_the_same_and_a_note_says_what_is_not_limited(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(MASK.format(cut="triu", before="pass"))
    (tmp_path / "right.py").write_text(MASK.format(cut="tril", before="pass"))
    here = command("check", str(tmp_path), "--json")
    code, output, errors = run("-m", "limelight", "check", str(tmp_path), "--json")
    assert code == here.returncode == 1, errors
    there = json.loads(output)
    for found in there:
        [note] = found.pop("notes")
        assert note.endswith("are not limited; processes that it starts are not ended")
    expected: list[dict[str, Any]] = json.loads(here.stdout)
    assert [found.pop("notes") for found in expected] == [[], []]
    assert there == expected


LIMITED = """
import sys
from pathlib import Path
from limelight.check.isolation.parent import Limits, check_file

for file in sys.argv[1:]:
    [report] = check_file(Path(file), limits=Limits(seconds=1)).reports
    print(report.name, *(finding.got for finding in report.broken))
"""


def test_code_that_does_not_return_is_ended(tmp_path: Path) -> None:
    endless, ending = tmp_path / "endless.py", tmp_path / "ending.py"
    endless.write_text(MASK.format(cut="tril", before="all(_ == 0 for _ in iter(int, 1))"))
    ending.write_text(MASK.format(cut="tril", before="__import__('os')._exit(3)"))
    code, output, errors = run("-c", LIMITED, str(endless), str(ending))
    assert code == 0, errors
    assert output.splitlines() == [
        "causal_mask it did not return within 1 s",
        "causal_mask it ended the process (exit code 3)",
    ]


# Downloads

FETCH = """
import hashlib, http.server, sys, threading
from functools import partial
from pathlib import Path
from limelight.data.download import fetch
from limelight.errors import WrongInput

class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory="served"))
threading.Thread(target=server.serve_forever, daemon=True).start()
url, content = f"http://127.0.0.1:{server.server_port}/file", Path("served/file").read_bytes()
for checksum in ("sha256:" + "0" * 64, "sha256:" + hashlib.sha256(content).hexdigest()):
    try:
        assert fetch(url, Path("got"), size=len(content), checksum=checksum).read_bytes() == content
    except WrongInput as error:
        print(str(error).rpartition(";")[2])
    print(sorted(path.name for path in Path("got").iterdir()))
"""


def test_a_download_is_verified_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "file").write_bytes(b"line\nline\r\n" * 997)
    code, output, errors = run("-c", FETCH)
    assert code == 0, errors
    wrong = " the file was deleted: try again, or download it manually and pass it with --data PATH\n"
    assert output == f"{wrong}[]\n['file']\n"


# serve


def test_the_live_page_is_served_until_ctrl_c(tmp_path: Path) -> None:
    settings = ["--set=train.epochs=0.1", "--set=model.width=8", "--set=task.data.train=300"]
    assert command("train", "majority", *settings, "--out", str(tmp_path / "run")).returncode == 0
    process = start("-m", "limelight", "serve", str(tmp_path / "run"), "--port", "0")
    address = not_none(process.stdout).readline().strip()
    assert address.startswith("http://127.0.0.1:"), process.communicate()[1]
    with urlopen(f"{address}api/health", timeout=30) as response:
        assert json.loads(response.read())["status"] == "ok"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == ""
    assert process.returncode == 0
