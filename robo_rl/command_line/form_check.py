"""Check of a training that a page is to start, and the choices of its form, in a process of its own.

``python -m robo_rl.command_line.form_check`` prints the choices as JSON; with words after it, it composes and checks
the configuration of ``robo-rl train`` with these words, as the command does. Errors are printed as by the command.
"""

import json
import math
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from ..app import has_robot, needed_packages
from ..core import ConfigError, RoboRLError, check_seed, printable, scratch_folder
from ..operators.takeover import has_person
from .application import register_configs, run_command
from .output import printable_output
from .usage import composed_choices

COMMAND = "train"
SERVERS = {"server": "address", "wandb": "project", "endpoint": "model"}
"""Sections of a configuration that name a server, and the option without which it is not contacted."""
MOST_SWEPT = 32
"""Largest number of runs of a sweep that a page starts."""
EXIT_USAGE = 2


def form_choices() -> dict[str, Any]:
    """Return the tasks and agents, the default ones, and the default folder of a run with its interpolations."""
    register_configs(COMMAND)
    config, groups, chosen = composed_choices(COMMAND, ())
    values: Any = OmegaConf.to_container(config, resolve=False)
    names = ("task", "agent")
    return {
        "choices": {name: groups[name] for name in names},
        "chosen": {name: chosen[name] for name in names},
        "folder": values["run"]["dir"],
    }


def checked_runs(words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the seed, steps and folder of each run that ``robo-rl train`` would make with ``words``.

    Raises:
        ConfigError: if the configuration is not valid, needs a robot or a person, contacts a server, or names code,
            secrets or hosts that a saved configuration may not name.
        OSError: if a file of the configuration cannot be read.
    """
    runs: list[dict[str, Any]] = []

    def check(config: DictConfig) -> int:
        check_seed(config)
        if has_robot(config):
            raise ConfigError("a page starts no robot: start this run in a terminal")
        if has_person(config):
            raise ConfigError("nobody could intervene in a run that a page starts: leave out teleop and steering")
        if servers := contacted_servers(config):
            raise ConfigError(f"a page starts no run that contacts a server ({servers[0]}): start it in a terminal")
        if names := needed_packages(config):
            raise ConfigError(f"a page starts no run that names {', '.join(names)}: start it in a terminal")
        runs.append({"seed": config.seed, "steps": config.run.env_steps, "folder": str(config.run.dir)})
        return 0

    require_few(words)
    with scratch_folder() as folder:
        sweep_folder = [f"hydra.sweep.dir={folder}"] if "-m" in words else []
        run_command(COMMAND, [*words, *sweep_folder], check)
    return runs


def contacted_servers(config: DictConfig) -> list[str]:
    """Return the options by which a run contacts a server: a policy server, Weights & Biases, or that of a model."""
    options = []

    def search(place: str, node: Any) -> None:
        if isinstance(node, list):
            node = dict(enumerate(node))
        if not isinstance(node, dict):
            return
        for key, name in SERVERS.items():
            if place.rpartition(".")[2] == key and node.get(name):
                options.append(f"{place}.{name}={node[name]}")
        for name, value in node.items():
            search(f"{place}.{name}".lstrip("."), value)

    search("", OmegaConf.to_container(config, resolve=True))
    return options


def require_few(words: Sequence[str]) -> None:
    """Check the number of runs of a sweep, before Hydra makes a list of them.

    Raises:
        ConfigError: if there are more than :data:`MOST_SWEPT`, or a pattern stands for the values.
    """
    parser, counts = OverridesParser.create(), []
    for word in words:
        try:
            override = parser.parse_override(word)
        except HydraException:
            continue  # the command reports it
        if not override.is_sweep_override():
            continue
        sweep = override.value()
        if isinstance(sweep, Glob):
            raise ConfigError(f"{word}: a page sweeps over values that are named one by one, as in task=reach,wipe")
        # The iterator of a shuffled range is a list of all its values.
        values = sweep.range() if isinstance(sweep, RangeSweep) else override.sweep_iterator()
        counts.append(sum(1 for _ in islice(values, MOST_SWEPT + 1)))
    if math.prod(counts) > MOST_SWEPT:
        raise ConfigError(f"a page starts at most {MOST_SWEPT} runs at a time: vary fewer values")


def main() -> int:
    """Print the choices or the checked runs as the last line; return the exit code."""
    words = sys.argv[1:]
    try:
        with printable_output():
            answer = {"runs": checked_runs(words)} if words else form_choices()
    except (RoboRLError, OSError) as error:
        print(f"robo-rl: {printable(str(error))}", file=sys.stderr)
        return EXIT_USAGE
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
