"""Links, anchors and shelves of the documentation, and paths to it in the code."""

import importlib.util
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import robo_rl
import robo_rl.rewards
import robo_rl.sim

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
PLUGINS = ("mkdocstrings", "mkdocs_jupyter")
LIST_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MkDocs make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
        assert anchor not in found, f"{page}: two headings #{anchor}"
        found.add(anchor)
    return found


def faults(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    wrong = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        # A folder is no page of the site.
        exists = target.is_file() if target.is_relative_to(DOCS) else target.exists()
        if not exists or (anchor and (target.suffix != ".md" or anchor not in anchors(target))):
            wrong.append(f"{page.relative_to(ROOT)}: {link}")
    return wrong


def test_links_and_anchors_lead_somewhere() -> None:
    pages = [*PAGES, ROOT / "README.md", ROOT / "launch" / "README.md"]
    assert not [fault for page in pages for fault in faults(page)]


def test_every_page_has_one_title_and_stands_on_a_shelf() -> None:
    for page in PAGES:
        if page.parent != DOCS / "measured" / "results":
            assert page.parent.name in ("guide", "reference", "measured") or page == DOCS / "index.md", page
            titles = re.findall(r"^# .+$", prose(page), re.MULTILINE)
            assert len(titles) == 1 and page.read_text().startswith("# "), page


@pytest.mark.parametrize("shelf", ["guide", "reference", "measured"])
def test_the_overview_of_a_shelf_lists_its_pages(shelf: str) -> None:
    overview = DOCS / shelf / "index.md"
    pages = {page.name for page in overview.parent.glob("*.md")}
    assert pages - {"index.md"} <= set(LINK.findall(overview.read_text()))


def test_lists_are_apart_from_the_paragraph_before() -> None:
    """Markdown of the site takes what follows a paragraph without an empty line for a part of it."""
    for page in PAGES:
        lines = prose(page).splitlines()
        for before, line in pairwise(lines):
            if LIST_ITEM.match(line) and before.strip() and not before.startswith(" ") and not LIST_ITEM.match(before):
                pytest.fail(f"{page.relative_to(ROOT)}: an empty line before {line!r}")


def test_paths_to_pages_in_code_exist() -> None:
    folders = ("robo_rl", "sim", "rewards", "drivers", "launch", "configs", "tests", "benchmarks", "examples")
    files = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "README.md", *PAGES]
    for folder in folders:
        files += [each for each in (ROOT / folder).rglob("*") if each.suffix in (".py", ".yaml", ".md", ".html", ".js")]
    missing = [
        f"{file.relative_to(ROOT)}: {path}"
        for file in files
        for path in re.findall(r"(?<![\w./-])docs/[\w./-]+\.(?:md|json)\b", file.read_text())
        if "NAME" not in path and not (ROOT / path).is_file()
    ]
    assert not missing


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    own = Path(sys.prefix) / "docs" / "bin" / "mkdocs"  # made by make docs
    if all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocs_awesome_nav", *PLUGINS)):
        mkdocs = [sys.executable, "-m", "mkdocs"]
    elif own.is_file() and all(any(own.parents[1].glob(f"lib/*/site-packages/{name}")) for name in PLUGINS):
        mkdocs = [str(own)]
    else:
        pytest.skip("MkDocs is not installed; make docs installs it")
    built = subprocess.run(
        [*mkdocs, "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    site = tmp_path / "site"
    assert (site / "reference" / "rewards.html").is_file()
    api = (site / "reference" / "api.html").read_text()
    assert "Train an agent, as" in api and ":class:" not in api
    assert (site / "guide" / "notebooks" / "train.html").is_file()


def test_the_python_api_page_names_all_public_classes_and_functions() -> None:
    """Registries and what a package calls for itself are described elsewhere."""
    described = set(re.findall(r"^::: (\S+)$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE))
    public = {
        f"{module.__name__}.{name}" for module in (robo_rl, robo_rl.sim, robo_rl.rewards) for name in module.__all__
    }
    others = {"robo_rl.__version__", "robo_rl.sim.ENVIRONMENTS", "robo_rl.sim.TASKS", "robo_rl.rewards.MODULES"}
    others |= {f"robo_rl.{name}" for name in ("sim.register_configs", "sim.register_environments")}
    assert described == public - others - {"robo_rl.rewards.register_configs"}
