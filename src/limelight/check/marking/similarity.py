"""Pairs of submissions with similar code. Names, comments and the layout of the code do not matter."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

LENGTH = 12  # tokens that are compared as one piece
LEAST_PIECES = 40  # shorter code is too common to be compared
LEAST_SHARE = 0.6
COMMON_SHARE = 0.5  # pieces that occur in more submissions than this say nothing about a pair


def similar_pairs(
    codes: Mapping[str, Sequence[str]], handout: Iterable[str] = ()
) -> list[tuple[float, str, str]]:
    """Pairs of keys with the share of their pieces that both have, most similar first.

    Pieces of the handout, and those that most submissions have, are not counted.
    """
    given = {piece for code in handout for piece in pieces(code)}
    found = {key: {one for code in several for one in pieces(code)} - given for key, several in codes.items()}
    numbers = Counter(piece for several in found.values() for piece in several)
    limit = max(2, COMMON_SHARE * len(found))
    found = {key: {piece for piece in several if numbers[piece] <= limit} for key, several in found.items()}
    pairs = []
    for one, other in combinations(sorted(found), 2):
        sizes = len(found[one]), len(found[other])
        if min(sizes) >= LEAST_PIECES:
            share = 2 * len(found[one] & found[other]) / sum(sizes)
            if share >= LEAST_SHARE:
                pairs.append((share, one, other))
    return sorted(pairs, key=lambda pair: (-pair[0], *pair[1:]))


def pieces(code: str) -> set[str]:
    """All sequences of LENGTH tokens of the code; empty if it is no Python code."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    tokens = list(_tokens(tree, _own_names(tree)))
    return {" ".join(tokens[start : start + LENGTH]) for start in range(len(tokens) - LENGTH + 1)}


def _own_names(tree: ast.AST) -> set[str]:
    """The names that the code defines itself: a student can change them without changing what it does."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
    return names


def _tokens(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """The nodes of the code in their order, with the names of other libraries and without docstrings."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom | ast.expr_context):
            continue
        yield type(node).__name__
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield "_" if name in own else name
            case ast.Constant(value=value):
                yield type(value).__name__
        pending += reversed(list(ast.iter_child_nodes(node)))
