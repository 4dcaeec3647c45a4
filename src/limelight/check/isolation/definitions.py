"""Which statements of a file are executed: definitions, and nothing that trains, plots or reads files."""

import __future__

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

# Functions that the value of a constant may call: they are fast, and later definitions may need the value.
CHEAP = re.compile(
    "abs|bool|callable|dict|float|getattr|hasattr|isinstance|issubclass|frozenset|int|len|list|max|min|pow|range|round|set|str|sum|tuple|zip"
    "|NewType|TypeVar|compile|dataclass|[fF]ield|finfo|iinfo|namedtuple|partial|get|getLogger|getenv|device|is_available"
    "|arange|eye|inf|log|log2|ones|sqrt|tensor|tril|triu|zeros"
    r"|[A-Z]\w*(Config|Args|Params|Settings)"
)
IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
# Statements of these calls are left out without a remark.
SILENT = {"append", "filterwarnings", "insert", "manual_seed", "print", "seed", "set_theme", "use"}


def factories(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """The functions of the file that only define and return another function: calls of them are cheap."""
    functions = [one for one in statements if isinstance(one, ast.FunctionDef)]
    return frozenset(
        one.name
        for one in functions
        if any(isinstance(part, ast.FunctionDef) for part in one.body)
        and all(isinstance(part, ast.FunctionDef | ast.Return | ast.Expr) for part in one.body)
    )


def is_definition(statement: ast.stmt, cheap: frozenset[str] = frozenset()) -> bool:
    """Whether it is an import, a function, a class or a constant; training, plots and file access are not.

    Calls of the functions in `cheap` may be part of a constant.
    """
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return True
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            return _is_cheap(value, cheap)
        case ast.AnnAssign(value=value):
            return value is None or _is_cheap(value, cheap)
        case ast.If(test=test, body=body, orelse=others):
            parts = [*body, *others]
            return not is_main(statement) and _is_cheap(test, cheap) and all(map(is_definition, parts))
        case ast.Try(body=body, handlers=handlers):
            handled = [one for handler in handlers for one in handler.body if not isinstance(one, ast.Pass)]
            return all(map(is_definition, [*body, *handled]))
    return False


def is_main(statement: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__"`, which an import does not execute either."""
    if not isinstance(statement, ast.If):
        return False
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def is_silent(statement: ast.stmt) -> bool:
    """Whether nobody misses it if it is left out: a docstring, a message, a seed."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
        case ast.Expr(value=ast.Call() as call):
            return function_name(call) in SILENT
    return is_main(statement)


def _is_cheap(value: ast.expr, cheap: frozenset[str]) -> bool:
    return all(CHEAP.fullmatch(function_name(call)) or function_name(call) in cheap for call in _calls(value))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that are executed; those in the body of a lambda are not."""
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child)


def function_name(call: ast.Call) -> str:
    """The last part of the name of the called function."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def assigned_names(statements: Iterable[ast.stmt]) -> set[str]:
    """All names that the statements assign."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def imported_names(statements: Iterable[ast.stmt]) -> tuple[set[str], set[str]]:
    """The top-level modules that are imported, and those of them whose absence the code handles itself."""
    needed, optional = set(), set()
    for statement in statements:
        for node in ast.walk(statement):
            needed |= set(_modules(node))
            if isinstance(node, ast.Try) and any(_handles_import_error(one) for one in node.handlers):
                # A handler that installs a package and imports it again needs the package.
                again = _modules_in(one for handler in node.handlers for one in handler.body)
                optional |= _modules_in(node.body) - again
    return needed, optional


def _modules_in(statements: Iterable[ast.stmt]) -> set[str]:
    return {name for one in statements for node in ast.walk(one) for name in _modules(node)}


def _modules(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]


def _handles_import_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return bool(IMPORT_ERRORS & {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)})


def future_flags(statements: Iterable[ast.stmt]) -> int:
    """The flags of the compiler for `from __future__ import annotations` and the like."""
    imports = [one for one in statements if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    names = [alias.name for one in imports for alias in one.names if hasattr(__future__, alias.name)]
    return sum(getattr(__future__, name).compiler_flag for name in set(names))


def relative_level(statements: Iterable[ast.stmt]) -> int:
    """How many folders up the relative imports go: 1 for `from .x import y`, 0 without relative imports."""
    nodes = (node for statement in statements for node in ast.walk(statement))
    return max((node.level for node in nodes if isinstance(node, ast.ImportFrom)), default=0)


def undefined_names(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that are read somewhere, and bound nowhere."""
    read: set[str] = set()
    bound: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.alias(name="*"):
                return set()  # it may define any name
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
    return read - bound - set(dir(builtins))
