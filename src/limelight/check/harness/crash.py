"""Errors that the checked code raises: whose mistake they are, and where they are raised."""

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from limelight.check.harness.inputs import CannotCall
from limelight.check.harness.time_limit import CALL_SECONDS, TooSlow
from limelight.check.places import place_of_error
from limelight.check.report import RUNS, Finding

WRONG_NAMES = (NameError, AttributeError)
# Messages about the definitions of the checked code, whatever it is called with.
WRONG_CALL = re.compile(
    r"unexpected keyword argument|required positional argument|positional arguments? but|multiple values for"
    r"|before Module.__init__\(\)|missing the required|is not subclass|is not a Module subclass"
)
# Errors that no argument of ours causes: the checked code makes this mask itself.
WRONG_USE = re.compile(r"only supports boolean masks")
# Errors of inputs with another number of axes than the checked code expects: (B, Y, X, D) for (B, T, D).
OF_OUR_AXES = re.compile(
    r"values to unpack|number of dimensions|[dD]imension out of range|too many indices|rearrange"
)
OF_OUR_VALUES = re.compile(r"\b(NoneType|int|float|tuple|list|bool|str|dict|Settings|RecordingConfig)\b")
UNFINISHED = re.compile(r"your code|to-?do|implement (this|me|here)|fill in|replace.{0,9}pass", re.IGNORECASE)


SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Attempt:
    """One call that failed: the error, and what was passed."""

    error: BaseException
    passed: str
    file: str
    line: int

    @property
    def place(self) -> tuple[str, int]:
        """The file and the line of the checked code that raised the error."""
        return self.file, self.line

    @property
    def code(self) -> str:
        """That line."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def uses_placeholder(self) -> bool:
        """Whether the line uses a name of a package that is not installed."""
        if self.error.__traceback__ is None:
            return False
        frames = [one.frame for one in inspect.getinnerframes(self.error.__traceback__)]
        own = [frame for frame in frames if frame.f_code.co_filename == self.file]
        names = re.findall(r"\w+", self.code)
        used = [own[-1].f_globals.get(name) for name in names] if own else []
        return any(getattr(value, "is_placeholder", None) is True for value in used)

    @property
    def misses_variable(self) -> bool:
        """Whether it misses a global name of a statement of the file that was left out."""
        name = self.error.name if isinstance(self.error, NameError) else None
        try:
            statements = ast.parse("".join(linecache.getlines(self.file))).body if name else []
        except SyntaxError:
            return False
        nodes = [node for one in statements if not isinstance(one, SCOPES) for node in ast.walk(one)]
        assigned = [
            node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        imported = [node.asname or node.name for node in nodes if isinstance(node, ast.alias)]
        return name in (*assigned, *imported)

    @property
    def message(self) -> str:
        """The error in one line."""
        if isinstance(self.error, TooSlow):
            return f"it did not return within {CALL_SECONDS:g} s"
        first = str(self.error).strip().splitlines()[0] if str(self.error).strip() else ""
        name = type(self.error).__name__
        return f"{name}: {first}" if first else name


def attempt(error: BaseException, passed: str) -> Attempt:
    """An attempt that ended with this error."""
    file, line = place_of_error(error) or ("", 0)
    return Attempt(error, passed, file, line)


def is_refusal(error: BaseException) -> bool:
    """Whether the checked code itself refuses an input: with `raise` or `assert`."""
    return bool(re.match(r"(raise|assert)\b", attempt(error, "").code))


def crash(attempts: Sequence[Attempt], *, all_known: bool) -> Attempt | None:
    """The attempt that shows a mistake of the checked code, or None if our arguments may be the cause.

    `all_known`: the meaning of every argument is known by its name.
    """
    first = attempts[0] if attempts else None
    if first is not None and isinstance(first.error, TooSlow):
        return first
    if first is None or not first.line or isinstance(first.error, ImportError):
        return None
    if re.search(r"\bnp\.|numpy", first.code):  # it computes with arrays of NumPy, and got a tensor
        return None
    if first.uses_placeholder or first.misses_variable:  # of a package or a statement that was left out
        return None
    if is_refusal(first.error):
        return None
    if WRONG_USE.search(str(first.error)) or _uses_default(first):
        return first
    is_ours = bool(OF_OUR_VALUES.search(str(first.error)))
    if isinstance(first.error, WRONG_NAMES) and not is_ours:
        return first
    # What is passed on as *args or **kwargs may be our guess.
    if (
        isinstance(first.error, TypeError)
        and WRONG_CALL.search(str(first.error))
        and not re.search(r"\*\w", first.code)
    ):
        return first
    is_ours |= bool(OF_OUR_AXES.search(str(first.error)))
    if not all_known or is_ours or len({one.place for one in attempts}) > 1:
        return None
    return first if isinstance(first.error, (RuntimeError, TypeError, ValueError, KeyError)) else None


def _uses_default(found: Attempt) -> bool:
    """Whether the line uses an argument that was not given, and whose default is None: `cache[0]`."""
    if "NoneType" not in str(found.error) or found.error.__traceback__ is None:
        return False
    frame = inspect.getinnerframes(found.error.__traceback__)[-1].frame
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    function = getattr(type(frame.f_locals.get("self")), frame.f_code.co_name, None)
    if function is None or getattr(function, "__code__", None) is not frame.f_code:
        return False
    parameters = inspect.signature(function).parameters
    return any(
        parameters[name].default is None
        and frame.f_locals.get(name) is None
        and re.search(rf"(?<![\w.]){name}(\[|\.)", found.code)
        for name in names
    )


def crash_finding(found: Attempt) -> Finding:
    """A call of the checked code ends with an error."""
    return Finding(
        promise="runs",
        statement=RUNS,
        verdict="FAIL",
        example=found.passed,
        expected="an output",
        got=found.message,
        hint="run this call yourself: the last line of the traceback that is in your file is the one to mend",
        file=found.file,
        line=found.line,
        code=found.code,
    )


def is_unfinished(source_code: str, attempts: Sequence[Attempt]) -> bool:
    """Whether the code was not written yet: NotImplementedError, or a None where an assignment has a gap."""
    error = attempts[0].error if attempts else None
    if isinstance(error, NotImplementedError) and attempts[0].line:
        return True
    is_none = isinstance(error, CannotCall) or "NoneType" in str(error)
    has_gap = "returns None" in str(error) or _has_gap(source_code)
    return is_none and has_gap and bool(UNFINISHED.search(source_code))


def _has_gap(source_code: str) -> bool:
    """Whether a function contains nothing but its docstring or `pass`, or a variable gets None."""
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(source_code))))
    except SyntaxError:
        return False
    functions = [node.body for node in nodes if isinstance(node, ast.FunctionDef)]
    assigned = [node.value for node in nodes if isinstance(node, ast.Assign)]
    is_empty = any(all(isinstance(one, (ast.Pass, ast.Expr)) for one in body) for body in functions)
    return (
        is_empty
        or any(isinstance(node, ast.Pass) for node in nodes)
        or any(isinstance(value, ast.Constant) and value.value is None for value in assigned)
    )
