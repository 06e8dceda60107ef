"""Subset of Python for reward code. The sandbox loads this file alone, so it imports no other module of the package."""

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

FUNCTION = "reward"
LARGEST_CODE = 20_000
"""Largest length of code [characters]; longer code is rejected."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "arccos": np.arccos,
    "arcsin": np.arcsin,
    "arctan2": np.arctan2,
    "clip": np.clip,
    "cos": np.cos,
    "exp": np.exp,
    "hypot": np.hypot,
    "log": np.log,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
    "where": np.where,
}
"""Functions that reward code may call, in addition to its own. All work on arrays element by element."""
LOOP = "range"
"""The only iterable of a ``for`` loop, not allowed elsewhere: one row of an array must not depend on other rows."""

NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.For, ast.Pass, ast.Expr,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Name, ast.Constant, ast.Load, ast.Store,
    ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
"""Allowed kinds of syntax: no attributes, subscripts, strings, lists, imports, conditions or exceptions."""
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
REFUSED_OPERATORS = (ast.LShift, ast.RShift, ast.MatMult)


class CodeError(ValueError):
    """Raised for code that is not in the language; the message contains the place and the reason."""


def check(code: str) -> tuple[str, ...]:
    """Check that ``code`` is in the language, and return the names of the arguments of its function ``reward``.

    Raises:
        CodeError: if it is not.
    """
    if len(code) > LARGEST_CODE:
        raise CodeError(f"expected at most {LARGEST_CODE:,} characters, got {len(code):,}")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CodeError(f"no Python: {error}") from error
    functions: dict[str, ast.FunctionDef] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            # otherwise the defaults and decorators of the first definition would run unchecked
            if statement.name in functions:
                raise CodeError(f"line {statement.lineno}: {statement.name!r} is defined twice")
            functions[statement.name] = statement
        elif not _is_docstring(statement):
            raise CodeError(f"line {statement.lineno}: only functions may stand here")
    for function in functions.values():
        _check_function(function, set(functions))
    if FUNCTION not in functions:
        raise CodeError(f"expected a function {FUNCTION!r}")
    return tuple(argument.arg for argument in functions[FUNCTION].args.args)


def _check_function(function: ast.FunctionDef, functions: set[str]) -> None:
    arguments = function.args
    extra = (*arguments.posonlyargs, *arguments.kwonlyargs, *arguments.defaults, arguments.vararg, arguments.kwarg)
    typed = getattr(function, "type_params", ())  # exists from Python 3.12 on
    annotated = function.returns or any(argument.annotation for argument in arguments.args)
    if any(extra) or function.decorator_list or annotated or typed:
        raise CodeError(
            f"line {function.lineno}: functions may only have plain arguments, without decorators and annotations"
        )
    nodes = [node for statement in function.body if not _is_docstring(statement) for node in ast.walk(statement)]
    for node in (function, *arguments.args, *nodes):
        name = getattr(node, "id", None) or getattr(node, "name", None) or getattr(node, "arg", None)
        if isinstance(name, str) and (name.startswith("_") or (name in (*FUNCTIONS, LOOP) and _assigns(node))):
            raise CodeError(f"line {node.lineno}: the name {name!r} is not allowed here")  # type: ignore[attr-defined]
    loops = [node.iter.func for node in nodes if isinstance(node, ast.For) and isinstance(node.iter, ast.Call)]
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == LOOP and node not in loops:
            raise CodeError(f"line {node.lineno}: {LOOP} may stand in 'for ... in {LOOP}(...)' alone")
        _check_node(node, functions)


def _check_node(node: ast.AST, functions: set[str]) -> None:
    line = getattr(node, "lineno", 0)
    kind = type(node).__name__
    if not isinstance(node, (*NODES, ast.keyword)) or isinstance(node, (ast.FunctionDef, *REFUSED_OPERATORS)):
        raise CodeError(f"line {line}: {kind} is not allowed")
    if isinstance(node, ast.keyword):
        raise CodeError(f"line {line}: arguments are given by their place")
    if isinstance(node, ast.Constant) and type(node.value) not in (int, float, bool):
        raise CodeError(f"line {line}: {node.value!r} is not allowed, only numbers are")
    if isinstance(node, ast.cmpop) and not isinstance(node, COMPARISONS):
        raise CodeError(f"{kind} is not allowed")
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        raise CodeError(f"line {line}: a chain of comparisons does not work on arrays; use (a < b) & (b < c)")
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else type(node.func).__name__
        if called not in functions and called not in (*FUNCTIONS, LOOP):
            raise CodeError(f"line {line}: {called!r} cannot be called; there are {', '.join(sorted(FUNCTIONS))}")
        if called == "where" and len(node.args) != 3:
            raise CodeError(f"line {line}: where(condition, a, b) takes three arguments, got {len(node.args)}")
    if isinstance(node, ast.For) and not (isinstance(node.iter, ast.Call) and _is_loop(node.iter.func)):
        raise CodeError(f"line {line}: a loop goes through {LOOP}(...) alone")
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.For)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not all(isinstance(target, ast.Name) for target in targets):
            raise CodeError(f"line {line}: only names may be assigned to")


def _is_loop(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == LOOP


def _assigns(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.arg)) or isinstance(getattr(node, "ctx", None), ast.Store)


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def compile_reward(code: str) -> Callable[..., Any]:
    """Check code and return its function ``reward``. Call this only in the sandboxed process.

    Raises:
        CodeError: if the code is not in the language.
    """
    check(code)
    tree = ast.parse(code)
    for node in ast.walk(tree):
        for block in (getattr(node, "body", []), getattr(node, "orelse", [])):
            block[:] = map(_plain, block)
    names: dict[str, Any] = {"__builtins__": {}, LOOP: range, **FUNCTIONS}
    exec(compile(tree, "<reward>", "exec"), names)
    function: Callable[..., Any] = names[FUNCTION]
    return function


def _plain(statement: ast.stmt) -> ast.stmt:
    """Return ``a += b`` as ``a = a + b``, and other statements unchanged.

    An augmented assignment would write into an array that may have other names, and arguments are read-only.
    """
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
        return statement
    read = ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement)
    value = ast.copy_location(ast.BinOp(read, statement.op, statement.value), statement)
    return ast.copy_location(ast.Assign([statement.target], value), statement)
