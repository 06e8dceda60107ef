"""Sizes of classes, functions and files: what is large has to be named here, and may only become smaller."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("robo_rl", "drivers", "sim", "rewards", "launch", "configs")
OTHERS = ("tests", "benchmarks", "examples")
"""Folders whose files are to stay short, too."""
MOST_METHODS, MOST_FUNCTION_LINES, MOST_FILE_LINES = 15, 60, 400

LARGE_CLASSES = {
    "Intake": 20,
    "EpisodeStore": 20,
    "DistilledReward": 19,
    "PythonStopPlanner": 17,
}
"""Classes with more methods than is readable, and how many. Each is to be cut along a seam."""


def sources() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_classes_have_at_most_fifteen_methods() -> None:
    large = {}
    for _, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
                if methods > MOST_METHODS:
                    large[node.name] = methods
    assert large == LARGE_CLASSES, "cut a class that has grown; note one that has become smaller"


def test_functions_fit_a_screen() -> None:
    large = [
        f"{path}:{node.lineno} {node.name}"
        for path, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_FUNCTION_LINES
    ]
    assert not large


def test_files_stay_short() -> None:
    others = [
        (str(path.relative_to(ROOT)), path.read_text()) for folder in OTHERS for path in (ROOT / folder).rglob("*.py")
    ]
    lengths = {path: len(text.splitlines()) for path, text in [*sources(), *others]}
    assert not {path: lines for path, lines in lengths.items() if lines > MOST_FILE_LINES}, "split it by topic"


def test_private_names_stay_in_their_modules() -> None:
    """A name that begins with an underscore is imported by nobody."""
    imported = [
        f"{path}:{node.lineno} {name.name}"
        for path, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name.startswith("_") and not name.name.startswith("__")
    ]
    assert not imported
