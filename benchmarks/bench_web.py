"""Time until the page of robo-rl web answers an emergency stop, with hostile runs in view, and with strangers.

    python benchmarks/bench_web.py [--presses 3] [--strangers 200] [--output FILE]

Run folders of every kind of tests/rigs/hostile_runs.py are made, and ``robo-rl web`` is started on them. A page chooses
each in turn and presses the emergency stop. Then clients open connections without a token, and the page reconnects for
each press. The time is from the press, or from the attempt to connect, to the answer.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from table_runs import make_parser, write_json
from websockets.sync.client import connect

from tests.rigs.hostile_runs import KINDS, make_hostile

PATIENCE_SECONDS = 20.0


def main() -> None:
    """Measure, and print a JSON object."""
    parser = make_parser(__doc__, "--output")
    parser.add_argument("--presses", type=int, default=3)
    parser.add_argument("--strangers", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        paths = [str(make_hostile(runs, kind)) for kind in KINDS]
        with serving(runs, Path(folder, "state"), "newest=100", "interval=0.2") as (origin, host, token):
            results = {"hostile": press_on_each(origin, host, token, paths, options.presses)}
            results["strangers"] = press_among_strangers(origin, host, token, options.strangers)
    print(json.dumps(results, indent=2))
    write_json(options.output, results)


@contextlib.contextmanager
def serving(runs: Path, state: Path, *words: str) -> Iterator[tuple[str, str, str]]:
    """Run ``robo-rl web`` on a folder of runs, with a folder for its own files; yield origin, host and token."""
    words = ("web", f"runs=[{runs}]", "web.address=127.0.0.1:0", *words)
    environment = os.environ | {"XDG_STATE_HOME": str(state)}
    process = subprocess.Popen(
        [sys.executable, "-m", "robo_rl.cli", *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        match = re.fullmatch(r"Open (http://(127\.0\.0\.1:\d+))/#(\S+)\n", process.stdout.readline())
        assert match is not None
        yield match[1], match[2], match[3]
    finally:
        process.terminate()  # a process that was started in the background may ignore SIGINT
        process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def page_of(origin: str, host: str, token: str) -> Any:
    """Open a page that has shown its token."""
    options: dict[str, Any] = {"origin": origin, "proxy": None, "open_timeout": PATIENCE_SECONDS}
    with connect(f"ws://{host}/socket", **options) as page:
        page.send(json.dumps({"token": token}))
        yield page


def press_on_each(origin: str, host: str, token: str, paths: list[str], presses: int) -> dict[str, Any]:
    """Return how long answers took [s], each run in view in turn, and how many of the runs were shown."""
    seconds, displayed = [], 0
    with page_of(origin, host, token) as page:
        for path in paths:
            displayed += choose(page, path)
            for _ in range(presses):
                seconds.append(press(page, path))
    return {"runs": len(paths), "shown": displayed, **summary(seconds)}


def choose(page: Any, path: str) -> bool:
    """Choose a run; return whether it was shown."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        page.send(json.dumps({"run": path}))
        with contextlib.suppress(TimeoutError):
            message = page.recv(0.5)
            if isinstance(message, str) and ((json.loads(message).get("run")) or {}).get("path") == path:
                return True
    return False


def press(page: Any, path: str | None) -> float:
    """Press the emergency stop; return how long the answer took [s]."""
    began = time.monotonic()
    page.send(json.dumps({"command": "emergency_stop", "run": path}))
    while True:
        message = page.recv(PATIENCE_SECONDS)
        if isinstance(message, str) and "stopped" in json.loads(message):
            return time.monotonic() - began


def press_among_strangers(origin: str, host: str, token: str, count: int) -> dict[str, Any]:
    """Return how long connecting and pressing took [s] while strangers hold connections and renew those that end."""
    address, _, port = host.partition(":")
    strangers = [socket.create_connection((address, int(port))) for _ in range(count)]
    time.sleep(0.5)
    seconds, refused = [], 0
    for _ in range(40):
        began = time.monotonic()
        try:
            with page_of(origin, host, token) as page:
                press(page, None)
            seconds.append(time.monotonic() - began)
        except Exception:  # whatever keeps the operator out counts as that
            refused += 1
        strangers.append(socket.create_connection((address, int(port))))
    for stranger in strangers:
        stranger.close()
    return {"strangers": count, "refused": refused, **summary(seconds)}


def summary(seconds: list[float]) -> dict[str, Any]:
    """Return count, median and longest."""
    ordered = sorted(seconds)
    rounded = [round(value, 4) for value in ordered]
    return {"answers": len(rounded), "median": rounded[len(rounded) // 2] if rounded else None, "longest": rounded[-1:]}


if __name__ == "__main__":
    main()
