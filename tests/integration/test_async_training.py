"""runtime=async and robo-rl learner, actor, control, keys: real processes, killed and interrupted."""

import contextlib
import json
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.core import Transition
from robo_rl.learner import CheckpointFolder, load_checkpoint
from robo_rl.replay import EpisodeStore
from robo_rl.telemetry import Command, LiveWatch

from ..rigs.command_line import PATIENCE_SECONDS, SMALL_AGENT, Forked, finish, robo_rl
from ..rigs.run_folder import records

STEPS = 300
AGENT = ["task=reach", *SMALL_AGENT]
RUN = [
    "demonstrations.episodes=2",
    f"run.env_steps={STEPS}",
    "run.evaluation_interval=200",
    "run.evaluation_episodes=2",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "runtime.threads=1",
]


def wait_until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def summary_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


def stored(folder: Path) -> list[Transition]:
    with EpisodeStore.open(folder / "replay" / "episodes") as store:
        return [step for number in range(len(store)) for step in store.episode(number)]


def check_conservation(folder: Path) -> None:
    """All steps that arrived are stored or counted, once, and each session is whole from its first step on."""
    summary = summary_of(folder)
    counts = summary["actors"]
    assert counts["received"] == counts["stored"] + counts["refused"]
    assert counts["still_with_actors"] == counts["in_open_episodes"] == counts["refused"] == 0
    steps = stored(folder)
    assert len(steps) == counts["stored"] == summary["env_steps"]
    sessions: dict[tuple[str, int], list[int]] = {}
    for step in steps:
        sessions.setdefault((step.actor, step.session), []).append(step.sequence)
    for sequences in sessions.values():
        assert sequences == list(range(len(sequences)))


def actor_processes(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"actor" in words and any(str(folder).encode() in word for word in words):
            found.append(int(process.name))
    return found


def test_two_actors_and_a_learner_keep_the_ratio_and_leave_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    safety = ["safety.speed.linear=0.25", "safety.violation_budget=0"]
    output = robo_rl("train", *AGENT, *RUN, *safety, "runtime=async", "runtime.actors=2", f"run.dir={folder}")
    assert "Actors may join at unix:" in output and "Report" in output
    summary = summary_of(folder)
    assert summary["status"] == "completed" and summary["env_steps"] >= STEPS
    assert 0.9 <= summary["learner_steps_per_env_step"] <= 1.0
    check_conservation(folder)
    assert {step.actor for step in stored(folder)} == {"actor_0", "actor_1"}
    changed = [step for step in stored(folder) if step.verdict.changed]
    reasons = {reason for step in changed for reason in step.verdict.reasons}
    # Not the only reason: where random actions lead depends on when the learner's weights arrive.
    assert "speed" in reasons, "what safety did is stored"
    assert summary["safety"]["changed_steps"] == len(changed)
    assert records(folder, "episode")[-1]["safety/speed"] > 0
    runtime = records(folder, "runtime")
    stale = [record for record in runtime if record["staleness_steps"] is not None]
    assert stale and all(record["staleness_steps"] >= 0 and record["staleness_seconds"] >= 0 for record in stale)
    assert all(record["refused_requests"] == 0 and record["refused_policies"] == 0 for record in runtime)
    assert max(step.policy_version for step in stored(folder)) > 0
    assert actor_processes(folder) == []


def test_actors_do_not_run_ahead_while_the_learner_waits_for_an_evaluation(tmp_path: Path) -> None:
    folder, interval, episode_steps = tmp_path / "run", 50, 25
    often = ["run.env_steps=150", f"run.evaluation_interval={interval}", "run.evaluation_episodes=30"]
    robo_rl("train", *AGENT, *RUN, *often, "runtime=async", f"run.dir={folder}")
    evaluated = [record["step"] for record in records(folder, "evaluation")]
    assert evaluated[0] == 0 and len(evaluated) >= 4, "each takes the time of hundreds of steps of an actor"
    for number, step in enumerate(evaluated):
        assert step <= number * interval / 0.9 + 3 * episode_steps, f"evaluations at {evaluated}"


def test_it_learns_while_it_evaluates_and_an_evaluation_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    endless = ["run.env_steps=100000", "run.evaluation_interval=100", "run.evaluation_episodes=100000"]
    endless += ["logging.train_interval=10"]
    begin = ["run.env_steps=20", "run.evaluation_interval=0", "run.final_evaluation_episodes=1"]
    robo_rl("train", *AGENT, *RUN, *begin, "runtime=async", f"run.dir={folder}")
    (final,) = records(folder, "evaluation")
    process = Forked("train", f"resume={folder}", *endless)
    wait_until(lambda: records(folder, "train") and records(folder, "train")[-1]["step"] >= 150)
    assert facts_of(folder)["learned_evaluation"] == 0, "nobody knows yet what the first has come to"
    process.kill()
    process.communicate()
    wait_until(lambda: actor_processes(folder) == [])

    def written() -> dict[str, int]:
        found = {}
        for file in folder.glob("checkpoints/step_*/manifest.json"):
            with contextlib.suppress(FileNotFoundError):  # it is being replaced
                found[file.parent.name] = file.stat().st_mtime_ns
        return found

    known = written()
    process = Forked("train", f"resume={folder}", *endless)
    wait_until(lambda: written() != known)  # it has begun to make it anew
    process.send_signal(signal.SIGINT)
    finish(process, code=130)
    assert actor_processes(folder) == [] and records(folder, "evaluation") == [final]
    before = summary_of(folder)["env_steps"]
    robo_rl("train", f"resume={folder}", f"run.env_steps={before + 20}", "run.evaluation_episodes=2")
    _, *evaluated = [record["step"] for record in records(folder, "evaluation")]
    assert len(evaluated) >= 2 and before <= evaluated[0] <= before + 5, f"the first is made up for: {evaluated}"
    check_conservation(folder)


def facts_of(folder: Path) -> Mapping[str, Any]:
    return CheckpointFolder(folder / "checkpoints").load_newest().facts


def test_a_run_ends_with_the_policy_that_was_good_enough(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    good = ["run.evaluation_interval=100", "run.evaluation_episodes=40", "run.stop_at_return=-1000"]
    robo_rl("train", *AGENT, *RUN, *good, "logging.train_interval=10", "runtime=async", f"run.dir={folder}")
    assert summary_of(folder)["status"] == "reached"
    found, last = map(load_checkpoint, CheckpointFolder(folder / "checkpoints").folders()[-2:])
    assert found.facts["reached"] and found.facts["score"] is not None
    first, evaluated, final = records(folder, "evaluation")
    assert first["step"] == 0, "which was good enough, but ends no run"
    assert (evaluated["step"], final["step"]) == (found.step, last.step)
    learned = [record["step"] for record in records(folder, "train")]
    assert learned[-1] > found.step, "it went on to learn meanwhile"
    for name, values in found.parts["agent"].items():
        if not name.startswith("plan/"):  # what the final evaluation left of its last chunk
            np.testing.assert_array_equal(last.parts["agent"][name], values, strict=True, err_msg=name)
    assert last.parts["run"]["counters"][1] == found.parts["run"]["counters"][1]


def test_an_interrupted_run_goes_on_with_everything_that_was_stored(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = Forked("train", *AGENT, *RUN, "runtime=async", f"run.dir={folder}", "run.env_steps=100000")
    wait_until(lambda: records(folder, "train"))
    process.send_signal(signal.SIGINT)
    output = finish(process, code=130)
    assert f"robo-rl train resume={folder}" in output
    assert summary_of(folder)["status"] == "interrupted"
    check_conservation(folder)
    before = stored(folder)
    robo_rl("train", f"resume={folder}", f"run.env_steps={len(before) + 50}")
    assert summary_of(folder)["status"] == "completed" and summary_of(folder)["env_steps"] >= len(before) + 50
    check_conservation(folder)
    assert_same_steps(stored(folder)[: len(before)], before)


def assert_same_steps(found: list[Transition], expected: list[Transition]) -> None:
    for actual, reference in zip(found, expected, strict=True):
        assert (actual.actor, actual.session, actual.sequence) == (
            reference.actor,
            reference.session,
            reference.sequence,
        )
        np.testing.assert_array_equal(actual.executed_action, reference.executed_action, strict=True)
        for key, value in reference.next_observation.items():
            np.testing.assert_array_equal(actual.next_observation[key], value, strict=True)


def test_kill_9_of_learner_and_actor(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = Forked("train", *AGENT, *RUN, "runtime=async", f"run.dir={folder}", "run.env_steps=100000")
    wait_until(lambda: records(folder, "train"))
    (actor,) = actor_processes(folder)
    os.kill(actor, signal.SIGKILL)
    wait_until(lambda: actor_processes(folder) not in ([], [actor]))
    wait_until(lambda: any(step.session == 2 for step in stored(folder)))
    process.kill()
    process.communicate()
    before = stored(folder)
    wait_until(lambda: actor_processes(folder) == [])
    robo_rl("train", f"resume={folder}", f"run.env_steps={len(before) + 50}")
    check_conservation(folder)
    steps = stored(folder)
    assert_same_steps(steps[: len(before)], before)
    # A third session began; whether its steps came in before the end depends on how many the second had still held.
    assert {1, 2} <= {step.session for step in steps} <= {1, 2, 3}


def test_an_actor_elsewhere_waits_for_a_learner_that_failed(tmp_path: Path) -> None:
    folder, address = tmp_path / "run", f"127.0.0.1:{free_port()}"
    wire = [f"runtime.transport.address={address}", "runtime.restarts=0"]
    learner = Forked("train", *AGENT, *RUN, "runtime=async", *wire, f"run.dir={folder}", "run.env_steps=100000")
    spool = f"actor.spool={tmp_path / 'spool'}"
    actor = Forked("actor", *AGENT, f"transport.address={address}", "actor.name=left", spool)
    wait_until(lambda: records(folder, "train") and any(step.actor == "left" for step in stored(folder)))
    os.kill(actor_processes(folder / "actors")[0], signal.SIGKILL)
    assert "actor_0 ended with exit code -9 and has no restart left" in finish(learner, code=2)
    assert actor_processes(folder / "actors") == [] and actor.poll() is None
    before = len(stored(folder))
    output = robo_rl("train", f"resume={folder}", f"run.env_steps={before + 100}")
    assert "Report" in output
    assert finish(actor).count("joined run") == 1, "it went on with its session"
    check_conservation(folder)
    assert {step.session for step in stored(folder)[before:] if step.actor == "left"} == {1}


def test_a_full_disk_of_the_learner_does_not_end_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    long = ["run.env_steps=100000", "run.evaluation_interval=0"]
    learner = Forked("train", *AGENT, *RUN, *long, "runtime=async", f"run.dir={folder}")
    messages: list[str] = []
    listening = threading.Thread(target=messages.extend, args=(learner.stdout,), daemon=True)
    listening.start()
    wait_until(lambda: records(folder, "train"))
    largest = resource.prlimit(learner.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    wait_until(lambda: any("metrics.jsonl cannot be written (File too large)" in line for line in messages))
    LiveWatch(folder).send(Command("checkpoint"))  # none is due by itself where no further step can be stored
    wait_until(lambda: any("cannot be written: File too large; free space" in line for line in messages))
    full = len(records(folder, "runtime"))
    time.sleep(2)
    assert learner.poll() is None and len(records(folder, "runtime")) == full
    resource.prlimit(learner.pid, resource.RLIMIT_FSIZE, largest)
    wait_until(lambda: len(records(folder, "runtime")) > full + 2)
    learner.send_signal(signal.SIGINT)
    assert learner.wait(PATIENCE_SECONDS) == 130
    listening.join()
    episodes = records(folder, "episode")
    ends = np.cumsum([episode["length"] for episode in episodes])
    assert [episode["step"] for episode in episodes] == ends.tolist(), "none that ended on the full disk is missing"
    check_conservation(folder)


def test_learner_and_actor_with_certificates_and_commands(tmp_path: Path) -> None:
    folder, keys = tmp_path / "run", tmp_path / "keys"
    output = robo_rl("keys", f"path={keys}", "actors=[left]")
    assert f"transport.certificates={keys}" in output
    wire = [f"address=127.0.0.1:{free_port()}", f"certificates={keys}"]
    learner = Forked(
        "learner",
        *AGENT,
        *RUN,
        f"run.dir={folder}",
        *(f"runtime.transport.{word}" for word in wire),
        "run.env_steps=99999",
    )
    link = [f"transport.{word}" for word in wire]
    spool = f"actor.spool={tmp_path / 'spool'}"
    actor = Forked("actor", *AGENT, *link, "actor.name=left", spool)
    wait_until(lambda: records(folder, "train"))
    stranger = Forked("actor", *AGENT, *link, "actor.name=left", f"actor.spool={tmp_path / 'other'}", "agent.gamma=0.5")
    assert "agent.gamma: expected 0.97, found 0.5" in finish(stranger, code=2)
    check_live(folder)
    assert "pause: accepted" in robo_rl("control", "send=pause", *link)
    wait_until(lambda: records(folder, "runtime")[-1]["held_seconds"] > records(folder, "runtime")[0]["held_seconds"])
    robo_rl("control", "send=resume", *link)
    robo_rl("control", "send=checkpoint", *link)
    assert "there is no command 'jump'" in robo_rl("control", "send=jump", *link, code=2)
    robo_rl("control", "send=stop", *link)
    output = finish(learner)
    assert "left joined (session 1)" in output and "checkpoint" in output
    assert "left joined run" in finish(actor)
    assert summary_of(folder)["status"] == "stopped"
    check_conservation(folder)


def check_live(folder: Path) -> None:
    """Those who watch see the robot and its pictures, and a reset ends its episode."""
    watch = LiveWatch(folder)

    def is_seen() -> bool:
        watch.watch()
        status = watch.status()
        robots = status.robots if status is not None else ()
        # Where this machine cannot render, that is told instead.
        return any(robot.connected and (watch.pictures() or robot.picture_problem) for robot in robots)

    def was_reset() -> bool:
        watch.send(Command("reset", "left"))  # again and again: a robot that is held has no episode to end
        time.sleep(0.5)
        return any(line["length"] < 25 and line["success"] is False for line in records(folder, "episode"))

    wait_until(is_seen)
    wait_until(was_reset)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_mistakes_are_named(tmp_path: Path) -> None:
    run = f"run.dir={tmp_path / 'run'}"
    for words, message in (
        (["runtime.min_ratio=2"], "runtime.min_ratio must be 0 to runtime.max_ratio, got 2.0"),
        (["runtime.actors=0"], "runtime.transport.address must be an address if runtime.actors is 0"),
        (["runtime.transport.address=0.0.0.0:5000"], "can be reached from other machines"),
    ):
        assert message in robo_rl("train", "task=reach", "runtime=async", run, *words, code=2)
