"""Bytes, controls and contrast of every page that robo-rl serves, on six screens, in light and dark colours.

    python benchmarks/bench_pages.py [--output FILE]

The pages are those of tests/rigs/pages.py, opened in headless Chromium; tests/integration/test_web_sizes.py fails where
one exceeds a limit. For each page: the bytes before pictures and videos, the seconds until its first text is drawn, the
number of controls, the least side of one [px], the least contrast of a text, the largest width beyond the screen [px],
and the number of controls that are covered.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from table_runs import machine, make_parser, write_json

from tests.rigs.browser import open_browser
from tests.rigs.page_checks import SIZES, bytes_of, contrasts, layout_of, resize
from tests.rigs.pages import Opener, served_pages

FIRST_TEXT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def main() -> None:
    """Measure, and print a JSON object."""
    options = make_parser(__doc__, "--output").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        with open_browser(Path(folder, "profile")) as browser, served_pages(Path(folder, "files")) as pages:
            results = {name: measured(browser, opener) for name, opener in pages.items()}
    print(json.dumps(results, indent=2))
    write_json(options.output, {"machine": machine(), "pages": results})


def measured(browser: Any, opener: Opener) -> dict[str, Any]:
    """Return the figures of a page."""
    resize(browser, *SIZES[0])
    opener(browser)
    loaded, drawn_ms = bytes_of(browser), browser.execute_script(FIRST_TEXT)
    controls, texts, beyond = [], [], 0
    for size in SIZES:
        resize(browser, *size)
        layout = layout_of(browser)
        beyond = max(beyond, layout["width"] - size[0])
        controls += layout["controls"]
        texts += [text for scheme in ("light", "dark") for text in contrasts(browser, scheme)]
    sides = [min(each["right"] - each["left"], each["bottom"] - each["top"]) for each in controls]
    return {
        "bytes": loaded,
        "first_text_seconds": None if drawn_ms is None else round(drawn_ms / 1000, 2),
        "controls": len(layout["controls"]),
        "least_side": round(min(sides), 1),
        "covered": sum("covered" in each for each in controls),
        "beyond_width": beyond,
        "least_contrast": round(min(text["contrast"] for text in texts), 2),
    }


if __name__ == "__main__":
    main()
