"""robo-rl <command> [overrides]: each command is a Hydra application.

What a user can get wrong ends in one line on standard error and exit code 2; ``--debug`` shows the traceback.
"""

import contextlib
import importlib
import keyword
import os
import sys
from collections.abc import Callable, Iterator, Sequence

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from .commands.interruption import sigterm_unwinds
from .core import ConfigError, RoboRLError, nearest

COMMANDS = {
    "train": "train an agent: robo-rl train task=pick_cube",
    "learner": "train from actors on other machines",
    "actor": "act for a learner: robo-rl actor transport.address=HOST:PORT",
    "control": "pause, resume, checkpoint or stop a run: robo-rl control send=pause",
    "keys": "make certificates for learner and actors",
    "eval": "evaluate the policy of a run: robo-rl eval run=runs/...",
    "record": "record demonstrations by teleoperation or from the scripted expert",
    "label": "say what the frames of a data set show: success, or stages; a classifier learns it",
    "collect": "run a trained policy into a data set",
    "export": "write a data set in the format of another project: robo-rl export path=... output=... format=lerobot",
    "import": "make a data set of another project's data: robo-rl import path=... output=... format=lerobot",
    "view": "replay an episode, run or data set in Rerun; export MP4",
    "top": "show what runs are doing, in the terminal: robo-rl top",
    "web": "the same in a page with live cameras, curves and buttons: robo-rl web",
    "report": "make an HTML page of one or more runs",
    "reward inspect": "show what the reward modules of a run say along an episode",
    "reward benchmark": "measure how well reward modules agree with a task's true progress",
    "reward answer": "answer, in this terminal or a browser, what reward modules ask of a vision-language model",
    "reward publish": "score a live robot with reward modules, over ROS 2",
    "reward write": "have a language model write a reward as code",
    "vision contrast": "make a small image encoder from recordings of play, without labels",
    "vision pretrain": "make a small CLIP model from pictures of simulated tasks",
    "safety learn": "learn from a data set from which states a specification can be kept",
    "stop": "emergency stop: no robot of this user moves until a person re-arms",
    "rearm": "take the emergency stop back (in a terminal)",
    "enable": "deadman switch: robots move while the space bar is held",
    "launch": "start several commands together: robo-rl launch train task=reach",
    "robot": "be a virtual robot over ROS 2: robo-rl robot task=reach",
    "guard": "watch a robot from a process of its own, and stop it: robo-rl guard robot=virtual task=reach",
    "cameras": "find cameras, show what they can do and save a picture of each",
    "doctor": "check this machine and say what to do",
}

AT_ONCE = {
    "stop": "[file=PATH] [reason=TEXT]",
    "rearm": "[file=PATH]",
    "enable": "[file=PATH]",
    "launch": "NAME|FILE.yaml [ARGUMENT=VALUE ...]",
}
"""Commands without Hydra, and their options."""

LASTING = ("train", "learner", "actor", "record", "robot", "guard", "reward publish")
"""Commands that a robot or a long run depends on: they outlast a disk that takes no more of their output."""

EXIT_USAGE = 2
EXIT_SIGNAL = 128
"""A command that a signal interrupted ends with this plus the signal's number."""
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``robo-rl`` with ``arguments`` (those of the process by default) and exit."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with sigterm_unwinds():
            status = _dispatch(words)
        sys.stdout.flush()
        sys.exit(status)
    except BrokenPipeError:  # whoever read our output has gone, as in robo-rl --help | head -1
        if debug:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at exit fails again
        sys.exit(EXIT_BROKEN_PIPE)
    except KeyboardInterrupt:
        if debug:
            raise
        sys.exit(EXIT_INTERRUPTED)
    except RoboRLError as error:
        if debug:
            raise
        print(f"robo-rl: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except OSError as error:  # a folder that cannot be made, a disk that is full: mostly no defect of ours
        if debug:
            raise
        place = "" if error.filename is None else f"{error.filename}: "
        print(f"robo-rl: {place}{error.strerror or error} (--debug shows where)", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else EXIT_USAGE
    if words[0] == "--version":
        from robo_rl import __version__

        print(f"robo-rl {__version__}")
        return 0
    length = 2 if " ".join(words[:2]) in COMMANDS else 1
    command, overrides = " ".join(words[:length]), words[length:]
    if command not in COMMANDS:
        raise ConfigError(f"unknown command {command!r}: {nearest(command, COMMANDS)}")
    if "--ros-args" in overrides:
        from .commands.ros_arguments import without_ros_arguments

        overrides = without_ros_arguments(command, overrides)
    if command in AT_ONCE:
        if {"-h", "--help"} & set(overrides):
            print(f"robo-rl {command} {AT_ONCE[command]}: {COMMANDS[command]}")
            if command == "launch":
                from .commands.launch import usage

                print(usage())
            return 0
        module = importlib.import_module(f"robo_rl.commands.{'launch' if command == 'launch' else 'stop'}")
        return int(module.run(command, overrides))
    if command in LASTING:
        from .commands.output import lenient_output

        with lenient_output():
            return run_command(command, overrides)
    return run_command(command, overrides)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return (
        "usage: robo-rl COMMAND [KEY=VALUE ...] [--help] [--cfg job] [-m] [--debug]\n\n"
        + "\n".join(lines)
        + "\n\nrobo-rl COMMAND --help lists the options of a command; -m sweeps over comma-separated values; tab"
        '\ncompletion: eval "$(robo-rl train -sc install=bash)".'
    )


def run_command(command: str, overrides: list[str]) -> int:
    """Compose the command's configuration and call its ``run``; Hydra's errors become ours."""
    from .app import register_all_configs
    from .commands import ray_launcher
    from .commands.usage import explain, require_known, require_known_additions

    register_all_configs()
    ray_launcher.register()
    name = command.replace(" ", "_")
    if {"-h", "--help"} & set(overrides):
        return _help(command, name, [word for word in overrides if not word.startswith("-")])
    require_known_additions(name, overrides)
    status = 0
    failure: Exception | None = None
    composed = False
    process = os.getpid()

    def job(config: DictConfig) -> None:
        nonlocal status, failure, composed
        composed = True
        try:
            require_known(config)
            module = f"{name}_" if keyword.iskeyword(name) else name
            run: Callable[[DictConfig], int] = importlib.import_module(f"robo_rl.commands.{module}").run
            status = max(status, run(config))
        except (OmegaConfBaseException, OSError, RoboRLError) as error:
            is_choice = isinstance(error, OmegaConfBaseException)
            failure = ConfigError(explain(error, name, overrides)) if is_choice else error
            if os.getpid() != process:
                raise failure from error  # A launcher of Hydra has begun this: nothing else comes back from there.
            # Hydra would print lines of its own about an exception; not about this.
            raise SystemExit from error
        if status and os.getpid() != process:
            raise RoboRLError(f"robo-rl {command} ended with exit code {status}")
        if status > EXIT_SIGNAL:
            raise SystemExit  # Who interrupts a run of a sweep wants no other to begin.

    application = hydra.main(config_path="pkg://robo_rl.configs", config_name=name, version_base="1.3")(job)
    try:
        with _command_line(command, overrides):
            application()
    except SystemExit as stop:
        if failure is not None:
            raise failure from stop.__cause__
        if status > EXIT_SIGNAL:
            return status
        raise
    except Exception as error:
        # Hydra has others beside its own, for flags that contradict each other or a dictionary where there is none yet.
        if composed and not isinstance(error, (HydraException, OmegaConfBaseException)):
            raise
        raise ConfigError(explain(error, name, overrides)) from error
    return status


def _help(command: str, name: str, overrides: list[str]) -> int:
    from .commands.usage import explain, help_text

    try:
        print(help_text(command, name, overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error, name, overrides)) from error
    return 0


@contextlib.contextmanager
def _command_line(command: str, overrides: list[str]) -> Iterator[None]:
    """Have Hydra find the command's words, and raise its errors to us."""
    saved = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    # Between overrides argparse does not take the flag; people put it anywhere.
    sweep = [word for word in overrides if word in ("-m", "--multirun")]
    sys.argv = [f"robo-rl {command}", *sweep, *(word for word in overrides if word not in sweep)]
    # Hydra would print its errors and exit with 1 by itself.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = saved[0]
        if saved[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = saved[1]


if __name__ == "__main__":
    main()
