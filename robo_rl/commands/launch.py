"""robo-rl launch: several commands at once, as listed in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..command_line.launching import LAUNCHES, Launch, read_plans
from ..core import ConfigError, Interruption, nearest


def run(command: str, words: Sequence[str]) -> int:
    """Start the processes of a launch file and wait for them.

    Args:
        command: ``launch``.
        words: name or path of a launch file, then ``ARGUMENT=VALUE``.

    Returns:
        The exit code of the main process, or of the first one that failed; 128 + N if signal N ended it or this
        process.

    Raises:
        ConfigError: if the file cannot be used, or an argument is unknown.
    """
    available = sorted(file.stem for file in LAUNCHES.glob("*.yaml"))
    if not words:
        raise ConfigError(f"robo-rl {command} needs a file.yaml or one of: {', '.join(available)}")
    file = Path(words[0]) if words[0].endswith((".yaml", ".yml")) else LAUNCHES / f"{words[0]}.yaml"
    if not file.is_file():
        raise ConfigError(f"there is no launch file {words[0]!r}: {nearest(words[0], available)}, or a path to a .yaml")
    plans = read_plans(file, words[1:])
    with Interruption() as interruption:
        return Launch(plans).run(interruption)


def usage() -> str:
    """Return the help text on the launch files of robo-rl, with their arguments and defaults."""
    lines = []
    for file in sorted(LAUNCHES.glob("*.yaml")):
        lines.append(f"\n{file.stem}")
        content: Any = OmegaConf.load(file)
        for name, facts in content["arguments"].items():
            lines.append(f"  {name:<10}{facts['text']} ({facts['default'] or 'none'})")
    return "\n".join(lines)
