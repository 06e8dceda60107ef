"""Pages of the guide and examples: the same code, within its budgets, with links that lead somewhere."""

import re

import pytest

from ..rigs.guide import EXAMPLES, PAGES, files

SHOWN = {
    "task.md": "push_block",
    "reward.md": "gentle",
    "stages.md": "stages",
    "robot.md": "six_joint_arm",
    "safety_filter.md": "slow_near_table",
    "deploy.md": "deployed",
}
SHOWN_ELSEWHERE = {"td3_bc"}
"""Examples whose pages have tests of their own."""
BUDGETS = {
    "push_block/push_block.py": 60,
    "gentle/gentle.py": 25,
    "slow_near_table/slow_near_table.py": 30,
    "td3_bc/td3_bc.py": 90,
    "deployed/run_policy.py": 35,
}


def code(folder):
    """Return the files of an example without its test, which robo-rl new writes and tests of that command run."""
    return [path for path in folder.rglob("*.*") if not path.name.startswith("test_")]


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_shows_the_whole_example(page):
    folder = EXAMPLES / SHOWN[page]
    kept = [path for path in code(folder) if path.suffix in (".py", ".c", ".toml", ".yaml", ".xml")]
    assert files(page) == {str(path.relative_to(folder)): path.read_text() for path in kept}


def test_every_example_is_shown():
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(SHOWN.values()) | SHOWN_ELSEWHERE


def test_examples_keep_their_budgets_of_lines():
    lines = {
        str(path.relative_to(EXAMPLES)): len(path.read_text().splitlines())
        for path in code(EXAMPLES)
        if path.suffix == ".py"
    }
    del lines["__init__.py"]
    assert lines.keys() == BUDGETS.keys(), "a robot is configuration alone"
    assert all(lines[name] <= BUDGETS[name] for name in lines), lines


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.iterdir() if path.is_file()))
def test_links_lead_to_files(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (PAGES / page).read_text())
    assert all((PAGES / link).exists() for link in links), links
