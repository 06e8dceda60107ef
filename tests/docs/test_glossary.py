"""The glossary: terms in alphabetical order, links that resolve, and folders without the identifiers to avoid."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "glossary.md"
ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| ([^|]+) \| ([^|]*)\|$", re.MULTILINE)
FEWEST_TERMS = 60
CLEAN = (
    "benchmarks",
    "drivers",
    "examples",
    "launch",
    "rewards",
    "robo_rl/actor",
    "robo_rl/agents",
    "robo_rl/api",
    "robo_rl/app",
    "robo_rl/command_line",
    "robo_rl/commands",
    "robo_rl/core",
    "robo_rl/evaluation",
    "robo_rl/learner",
    "robo_rl/monitoring",
    "robo_rl/operators",
    "robo_rl/recording",
    "robo_rl/replay",
    "robo_rl/reset",
    "robo_rl/residual",
    "robo_rl/safety",
    "robo_rl/telemetry",
    "robo_rl/training",
    "robo_rl/transport",
    "robo_rl/web",
    "sim",
    "tests/actor",
    "tests/api",
    "tests/app",
    "tests/benchmarks",
    "tests/command_line",
    "tests/contract",
    "tests/core",
    "tests/docs",
    "tests/evaluation",
    "tests/examples",
    "tests/fault",
    "tests/integration",
    "tests/learner",
    "tests/monitoring",
    "tests/recording",
    "tests/replay",
    "tests/reset",
    "tests/residual",
    "tests/rewards",
    "tests/rigs",
    "tests/sim",
    "tests/structure",
    "tests/telemetry",
    "tests/training",
    "tests/transport",
    "tests/web",
)
"""Folders without the identifiers that the page says to avoid. Add a folder once it is free of them."""


def rows() -> list[tuple[str, str, str, str]]:
    """Return term, link, meaning and words to avoid."""
    return ROW.findall(PAGE.read_text())


def avoided() -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("## Identifiers")[2], re.MULTILINE))


def test_terms_are_sorted_and_each_has_one_sentence() -> None:
    terms = [term for term, _, _, _ in rows()]
    lines = PAGE.read_text().partition("## Identifiers")[0].splitlines()
    assert len(terms) == sum(line.startswith("| [") for line in lines) >= FEWEST_TERMS
    assert terms == sorted(set(terms), key=str.casefold)
    for term, _, meaning, _ in rows():
        assert re.fullmatch(r"[A-Z][^.]*(\.\w[^.]*)*\.", meaning), f"{term}: {meaning!r} is not one sentence"


def test_links_lead_to_pages_and_modules() -> None:
    for term, link, _, _ in rows():
        assert (PAGE.parent / link).resolve().is_file(), f"{term}: there is no {link}"


def test_no_word_is_a_term_and_to_be_avoided() -> None:
    terms = {term for term, _, _, _ in rows()}
    synonyms = {word.strip() for _, _, _, avoid in rows() for word in avoid.split(",") if word.strip()}
    assert not terms & synonyms


def identifiers(file: Path) -> Iterator[tuple[str, int]]:
    """Yield each name that a file gives to something, without underscores around it, and its line."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_"), node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr.strip("_"), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_"), node.lineno
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name.strip("_"), node.lineno


@pytest.mark.parametrize("folder", CLEAN)
def test_clean_folders_have_no_identifier_to_be_avoided(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files and avoided()
    found = [f"{file.relative_to(ROOT)}:{line}: {name}" for file in files for name, line in identifiers(file)
             if name in avoided()]  # fmt: skip
    assert not found, "\n".join(found)
