"""The tour of the code: the functions that it names exist, are few lines, and call one another in its order."""

import ast
import inspect
import json
import re
import sys
from pathlib import Path
from typing import NoReturn

from robo_rl.cli import main

from ..rigs.command_line import Forked, finish

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "tour.md"
LINK = re.compile(r"\[`([\w.]+)`\]\(\.\./\.\./([\w/]+\.py)\)")
MOST_FRAMES, MOST_LINES = 10, 1200


def watched_training() -> None:
    """Run a training until the first target is computed, and print the functions of robo_rl on the call stack."""
    from robo_rl.agents.sac import update  # only in the process that trains

    target = update.critic_target

    def watched(*_: object) -> NoReturn:
        frames = [each for each in inspect.stack()[::-1] if "/robo_rl/" in each.filename]
        named = [(each.filename.rpartition("/robo_rl/")[2], each.frame.f_code.co_qualname) for each in frames]
        print(json.dumps([*named, ("agents/sac/update.py", target.__qualname__)]), file=sys.stderr, flush=True)
        raise SystemExit(0)

    update.critic_target = watched
    main()


def functions(file: Path) -> dict[str, int]:
    """Return the lines of each function of a file, by its name, with that of its class before it."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                found[prefix + child.name] = (child.end_lineno or 0) - child.lineno + 1
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{child.name}.")

    visit(ast.parse(file.read_text()), "")
    return found


def test_every_function_exists_or_is_named_by_its_class_alone() -> None:
    named = {(file, name) for name, file in LINK.findall(PAGE.read_text())}
    assert len(named) > MOST_FRAMES
    lines = 0
    for file, name in sorted(named):
        found = functions(ROOT / file)
        classes = {known.partition(".")[0] for known in found if "." in known}
        assert name in found or name in classes, f"{file} has no {name}"
        lines += found.get(name, 0)
    assert lines <= MOST_LINES


def test_links_of_the_guide_resolve() -> None:
    for page in PAGE.parent.glob("*.md"):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def frames() -> list[tuple[str, str]]:
    """Return file and function of the numbered sections."""
    numbered = re.findall(rf"^### (\d+)\. {LINK.pattern}$", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, _, _ in numbered] == list(range(1, len(numbered) + 1))
    return [(file, name) for _, name, file in numbered]


def test_there_are_few_frames_and_excerpts_are_from_their_files() -> None:
    assert len(frames()) == len(re.findall("^###", PAGE.read_text(), re.MULTILINE)) <= MOST_FRAMES
    for section in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        source = {line.strip() for _, file in LINK.findall(section) for line in (ROOT / file).read_text().splitlines()}
        for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            for line in filter(None, map(str.strip, block.splitlines())):
                assert line in source, f"{line!r} is in no file of its section"


def test_a_training_calls_the_frames_in_this_order(tmp_path: Path) -> None:
    words = ["train", "task=reach", "agent.implementation=torch", "agent.hidden=[8]", "agent.batch_size=8"]
    words += ["agent.pretrain_steps=1", "agent.learning_starts=1", "demonstrations.episodes=1", "run.dir=run"]
    words += ["run.evaluation_interval=0", "run.video_episodes=0"]
    output = finish(Forked(*words, program=watched_training, folder=tmp_path))
    printed = [line for line in output.splitlines() if line.startswith("[[")]
    assert printed, output
    stack = iter([f"robo_rl/{file}::{name}" for file, name in json.loads(printed[0])])
    for file, name in frames():
        assert f"{file}::{name}" in stack, f"{file}: {name} is not on the call stack here"
