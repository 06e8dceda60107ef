"""The command line, robo-rl COMMAND [OVERRIDES]: all commands except those in AT_ONCE are Hydra applications.

An error of the user ends in one line on standard error and exit code 2; ``--debug`` shows the traceback.
"""

import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence

from .command_line.output import printable_output
from .core import ConfigError, RoboRLError, nearest, printable, sigterm_unwinds

TOPICS = {
    "Train and evaluate": {
        "train": "train an agent: robo-rl train task=pick_cube",
        "eval": "evaluate the policy of a run: robo-rl eval run=runs/...",
        "eval compare": "find out which policy is better: robo-rl eval compare policies=[runs/a,runs/b]",
        "top": "show the state of runs in the terminal: robo-rl top",
        "web": "show runs in the browser, with live cameras, curves and buttons: robo-rl web",
        "phone": "the same for a phone in the local network, with one QR code: robo-rl phone",
        "report": "make an HTML page of one or more runs",
        "play": "watch a task's expert, a run's policy or recorded episodes in the browser; change speed and noise",
    },
    "Demonstrations and data sets": {
        "record": "record demonstrations by teleoperation or by a script",
        "label": "label success or stages in the frames of a data set, and train a classifier on the labels",
        "collect": "record episodes of a trained policy into a data set",
        "data describe": "describe a data set, and flag episodes with gaps, pauses, frozen sensors or rough actions",
        "data edit": "select, merge, trim, split or relabel episodes into a new data set",
        "import": "convert data of another project to a data set: robo-rl import path=... output=... format=lerobot",
        "export": "write a data set in the format of another project: robo-rl export path=... output=... format=rlds",
        "view": "replay an episode, run or data set in Rerun; export MP4",
    },
    "Rewards": {
        "reward inspect": "show the output of the reward modules of a run along an episode",
        "reward benchmark": "measure how well reward modules agree with the true progress of a task",
        "reward write": "have a language model write a reward as code",
        "reward answer": "answer the questions of reward modules in place of a vision-language model",
        "reward publish": "score a live robot with reward modules, over ROS 2",
        "vision contrast": "train a small image encoder on recordings of play, without labels",
        "vision pretrain": "train a small CLIP model on pictures of simulated tasks",
    },
    "Use a policy elsewhere": {
        "deploy": "write a policy to a file for use without PyTorch: robo-rl deploy run=runs/... output=policy.onnx",
        "serve": "serve a policy to other programs and machines: robo-rl serve run=runs/...",
    },
    "Robots": {
        "launch": "start several commands together: robo-rl launch train task=reach",
        "robot": "run a simulated robot over ROS 2: robo-rl robot task=reach",
        "doctor": "check this machine and list what is missing",
        "setup": "check a robot before its first training: robo-rl setup robot=... task=...",
        "cameras": "list cameras and their formats, and save a picture of each",
        "calibrate board": "write a calibration board as PDF, to print at 100 %",
        "calibrate camera": "measure the focal length and distortion of a camera from pictures of the board",
        "calibrate hand_eye": "measure the pose of a camera on the gripper or beside the robot",
        "identify": "measure delay, gains, friction and payload of an arm: robo-rl identify task=reach robot=...",
    },
    "Safety": {
        "stop": "emergency stop: all robots of this user, or one, stand still until a person re-arms them",
        "rearm": "release the emergency stop (in a terminal)",
        "enable": "deadman switch: robots move while the space bar is held",
        "guard": "watch a robot from a separate process, and stop it: robo-rl guard robot=virtual task=reach",
        "safety learn": "learn a safety filter from a data set: in which states a specification can be kept",
    },
    "Several machines": {
        "learner": "train with actors on other machines",
        "actor": "act for a learner: robo-rl actor transport.address=HOST:PORT",
        "control": "pause, resume, checkpoint or stop a run: robo-rl control send=pause",
        "keys": "create certificates for learner and actors",
    },
    "Your own parts": {
        "new": "create your own task, reward, filter, agent or robot: robo-rl new task my_task",
    },
}
"""All commands with a short description, by topic, in the order of the help."""

COMMANDS = {name: text for commands in TOPICS.values() for name, text in commands.items()}

AT_ONCE = {
    "stop": "[robot=NAME | file=PATH] [reason=TEXT]",
    "rearm": "[robot=NAME | file=PATH]",
    "enable": "[file=PATH]",
    "launch": "NAME|FILE.yaml [ARGUMENT=VALUE ...]",
    "new": "task|reward|filter|agent|robot NAME [KIND NAME ...] [model=FILE] [folder=FOLDER]",
}
"""Commands without Hydra, and their options."""

HELP = {"-h", "--help", "--help-all"}
UNSUGGESTED = ("stop", "rearm", "enable")
"""Commands that are never suggested for a misspelt one, because nobody should run them by mistake."""

LASTING = ("train", "learner", "actor", "record", "robot", "guard", "reward publish")
"""Commands that a robot or a long run depends on: they outlast a disk that takes no more of their output."""

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``robo-rl`` with ``arguments`` (those of the process by default) and exit."""
    _prepare_output()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with sigterm_unwinds(), printable_output():
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
        print(f"robo-rl: {printable(str(error))}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except OSError as error:  # a folder that cannot be made, a disk that is full: mostly no defect of ours
        if debug:
            raise
        place = "" if error.filename is None else f"{error.filename}: "
        print(f"robo-rl: {printable(f'{place}{error.strerror or error}')} (--debug shows where)", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def _prepare_output() -> None:
    """See that printing does not fail where standard output or error is closed, or lacks a character."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in (*HELP, "help"):
        print(_usage())
        return 0 if words else EXIT_USAGE
    if words[0] == "--version":
        from robo_rl import __version__

        print(f"robo-rl {__version__}")
        return 0
    length = 2 if " ".join(words[:2]) in COMMANDS else 1
    command, overrides = " ".join(words[:length]), words[length:]
    if command not in COMMANDS:
        following = {name.partition(" ")[2]: text for name, text in COMMANDS.items() if name.startswith(f"{command} ")}
        if following and HELP & set(overrides):
            print(_listed(f"robo-rl {command}", {"Commands": following}))
            return 0
        if following and not overrides:
            raise ConfigError(f"{command} is followed by one of: {', '.join(sorted(following))}")
        if following:
            raise ConfigError(f"unknown command '{command} {overrides[0]}': {nearest(overrides[0], following)}")
        raise ConfigError(f"unknown command {command!r}: {nearest(command, COMMANDS, UNSUGGESTED)}")
    if "--ros-args" in overrides:
        from .command_line.ros_arguments import without_ros_arguments

        overrides = without_ros_arguments(command, overrides)
    if command in AT_ONCE:
        if HELP & set(overrides):
            print(f"robo-rl {command} {AT_ONCE[command]}: {COMMANDS[command]}")
            if command == "launch":
                from .commands.launch import usage

                print(usage())
            return 0
        module = importlib.import_module(f"robo_rl.commands.{command if command in ('launch', 'new') else 'stop'}")
        return int(module.run(command, overrides))
    # What is imported and composed stays: to look for garbage in it takes a fifth of the start, until a command runs.
    gc.disable()
    try:
        return _run(command, overrides)
    finally:
        gc.enable()


def _run(command: str, overrides: list[str]) -> int:
    if HELP & set(overrides):
        from .command_line.light_commands import light_help

        if (text := light_help(command, overrides)) is not None:
            print(text)
            return 0
    from .command_line.application import run_command

    if command in LASTING:
        from .command_line.output import lenient_output

        with lenient_output():
            return run_command(command, overrides)
    return run_command(command, overrides)


def _listed(prefix: str, topics: Mapping[str, Mapping[str, str]]) -> str:
    """Return the usage line, and the commands under the titles of their topics."""
    width = max(len(name) for commands in topics.values() for name in commands)
    lines = [f"usage: {prefix} COMMAND [KEY=VALUE ...] [--help] [--cfg job] [-m] [--debug]"]
    for title, commands in topics.items():
        lines += ["", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in commands.items())]
    return "\n".join(lines)


def _usage() -> str:
    return (
        _listed("robo-rl", TOPICS)
        + "\n\nrobo-rl COMMAND --help lists the options of a command; -m sweeps over comma-separated values; tab"
        '\ncompletion: eval "$(robo-rl train -sc install=bash)".'
    )


if __name__ == "__main__":
    main()
