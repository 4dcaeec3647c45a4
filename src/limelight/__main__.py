"""The program: `limelight` and `python -m limelight` run a command and turn errors into exit codes."""

import io
import os
import signal
import sys
import threading
import warnings
from types import FrameType
from typing import Any

from cyclopts import CycloptsError, MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from limelight.cli import app
from limelight.errors import Stopped, WrongInput
from limelight.openmp import adaptive_spinning
from limelight.training.interrupt import STOPPING, Interrupted

SETTABLE = (("train",), ("sweep",), ("explain",), ("init",))  # the commands with --set


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: code 0 success, 1 failure, 2 invalid input, 129, 130 or 143 interrupted."""
    warnings.showwarning = _show_warning
    _end_on_signals()
    if isinstance(sys.stdin, io.TextIOWrapper):  # UTF-8 in every locale
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    for stream in (sys.stdout, sys.stderr):  # escape characters that the terminal cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with adaptive_spinning():
            app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        _fail(_usage(error, sys.argv[1:] if arguments is None else arguments), 2)
    except WrongInput as error:
        _fail(str(error), 2)
    except Stopped as error:
        _fail(str(error), 1)
    except Interrupted as stop:
        _fail(str(stop), 128 + stop.number)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except BrokenPipeError:  # the reader of a pipe has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeDecodeError:
        _fail("the input is not UTF-8 text", 2)
    except MemoryError:
        _fail("not enough memory", 1)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # torch raises RuntimeError instead of MemoryError
            raise
        _fail("not enough memory", 1)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror}", 2)


def _usage(error: CycloptsError, arguments: list[str]) -> str:
    """The message of cyclopts in one line, with the command that describes the arguments."""
    message = str(error)
    if isinstance(error, UnknownOptionError) and error.command_chain in SETTABLE:
        message = _with_setting(message, str(error.token.keyword), arguments)
    if isinstance(error, UnusedCliTokensError):
        message = f"unexpected argument: {' '.join(error.unused_tokens or ())}"
        if error.command_chain in SETTABLE and all("=" in token for token in error.unused_tokens or ()):
            message += "; a setting? write --set before it"
    elif isinstance(error, MissingArgumentError) and error.argument and error.argument.index is not None:
        message = f"{error.argument.name.removeprefix('--').upper()} is missing"
    if not error.command_chain:
        return message
    return f"{message.removesuffix('.')} (see limelight {' '.join(error.command_chain)} --help)"


def _with_setting(message: str, option: str, arguments: list[str]) -> str:
    """For an option that is the name of a setting, how to set it: `--epochs 3` is --set train.epochs=3.

    A similar option of the command is only suggested if the name is not that of a setting.
    """
    from limelight.experiment.config import sections_of
    from limelight.settings import is_called, suggest_key

    known = [setting.key for section in sections_of() for setting in section.settings]
    key = suggest_key(option.lstrip("-"), known)
    similar = "Did you mean" in message
    if key is None or (similar and not is_called(key, option.lstrip("-"))):
        return message
    words = [word for argument in arguments for word in argument.split("=", 1)]
    value = next(iter(words[words.index(option) + 1 :]), "VALUE")
    start = message.partition(" Did you mean")[0]
    return f"{start} A setting? --set {key}={'VALUE' if value.startswith('-') else value}"


def _end_on_signals() -> None:
    """SIGTERM and SIGHUP end a command with one line. A trainer handles them itself, and saves."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number, f"stopped by {signal.Signals(number).name}")

    if threading.current_thread() is threading.main_thread():
        for number in STOPPING:
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, end)


def _fail(message: str, code: int) -> None:
    if os.environ.get("RANK", "0") == "0":  # under torchrun, only the first process prints
        print(f"limelight: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"limelight: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
