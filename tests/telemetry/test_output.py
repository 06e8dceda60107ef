"""What output that cannot be written does to a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="has no device that is always full")

PROGRAM = """
import sys
from pathlib import Path
from robo_rl.command_line.output import lenient_output
from robo_rl.telemetry import LoggingConfig, RunLogger
with lenient_output(), RunLogger(Path(sys.argv[1]), LoggingConfig()) as logger:
    for step in range(200):
        print("a line of an actor" * 10, flush=True)
        logger.message("a line of a learner" * 10)
        logger.progress(step + 1, 200, step)
Path(sys.argv[1], "done").touch()
"""


@needs_full_device
def test_a_full_disk_under_the_output_ends_nothing(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "done").exists()
    piped = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "piped")], capture_output=True, text=True, timeout=120
    )
    assert piped.returncode == 0 and piped.stdout.count("a line of an actor") == 2000, "all of it where there is room"


def test_a_reader_that_went_away_is_still_noticed() -> None:
    program = """from robo_rl.command_line.output import lenient_output
with lenient_output():
    while True: print('y' * 99)"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"BrokenPipeError" in process.stderr.read()


PRINTING = """
from robo_rl.telemetry import Console
console = Console()
for number in range(1000):  # more than a pipe holds
    console.print("x" * 100)
open("done", "w").close()
"""


def test_what_a_command_does_goes_on_without_a_reader(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PRINTING], stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize(("redirection", "encoding"), [(">&-", "utf-8"), (">&- 2>&-", "utf-8"), ("> out", "ascii")])
def test_output_that_is_closed_or_lacks_a_character_is_no_error(
    tmp_path: Path, redirection: str, encoding: str
) -> None:
    program = "import sys; from robo_rl import cli; cli._dispatch = lambda _: print('±') or 0; cli.main([])"
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} program.py {redirection}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
