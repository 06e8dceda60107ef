"""Both ends of the wire together, in one process."""

import dataclasses
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from robo_rl.core import TransportError
from robo_rl.transport import send_command, sending
from robo_rl.transport.policy import PolicyMessage

from ..rigs.replay_episodes import assert_same
from ..rigs.transport_rig import RUN, ActorRig, steps_of, stored_steps, wait_until
from .conftest import LOCAL, config_for


@pytest.mark.parametrize("batch_bytes", [1, 20_000, 4 << 20])
def test_steps_arrive_once_and_in_order_and_leave_the_spool_when_stored(
    intake, rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int
) -> None:
    monkeypatch.setattr(sending, "BATCH_BYTES", batch_bytes)
    rig.close()
    rig = ActorRig(rig.link._sender._config, tmp_path / "other spool")
    session = rig.join()
    steps = steps_of(session, [12, 30, 5])
    rig.put(steps[:20])
    wait_until(lambda: intake.totals().taken == 20)
    assert intake.progress("robot", session).stored <= 12
    assert rig.spool.held_records >= 8, "the open episode is not stored, so it stays with the actor"
    rig.put(steps[20:])
    rig.finish()
    assert rig.spool.sessions() == [] and rig.spool.held_bytes == 0
    assert intake.totals() == (47, 47, 0, 0)
    assert_same(intake.take(), steps)
    rig.close()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


def test_an_open_episode_is_stored_when_the_session_ends(intake, rig, tmp_path: Path) -> None:
    session = rig.join()
    steps = steps_of(session, [12])[:7]
    rig.put(steps)
    rig.finish()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


def test_policy_and_guidance_come_down(server, rig) -> None:
    server.publish(3, {"weight": np.arange(400_000, dtype=np.float64)})
    rig.join()
    assert rig.link.wait_for_policy(120)
    version, state = rig.link.take_policy()
    assert version == 3
    np.testing.assert_array_equal(state["weight"], np.arange(400_000, dtype=np.float64))
    assert rig.link.take_policy() is None
    server.publish(4, {"weight": np.zeros(3, np.float32)})
    assert rig.link.wait_for_policy(120) and rig.link.take_policy()[0] == 4
    server.guide(room=0, stop=False, env_steps=12)
    wait_until(lambda: rig.link.status.hold)
    assert rig.link.status.env_steps == 12 and not rig.link.status.stop
    server.guide(room=1, stop=True, env_steps=13)
    wait_until(lambda: rig.link.status.stop)
    assert not rig.link.status.hold


def test_actors_are_held_by_the_step_that_takes_the_last_room(server, intake, rig) -> None:
    server.guide(room=3, stop=False, env_steps=0)
    steps = steps_of(rig.join(), [12])
    rig.put(steps[:2])
    wait_until(lambda: intake.totals().taken == 2)
    assert not rig.link.status.hold
    rig.put(steps[2:3])
    wait_until(lambda: rig.link.status.hold)
    server.guide(room=1, stop=False, env_steps=3)
    wait_until(lambda: not rig.link.status.hold)


def test_actors_share_the_room_and_hear_how_far_they_may_go(server, intake, rig, tmp_path: Path) -> None:
    server.guide(room=6, stop=False, env_steps=0)
    steps = steps_of(rig.join(), [12])
    wait_until(lambda: rig.link.status.until == 6)
    rig.put(steps[:4])
    wait_until(lambda: intake.totals().taken == 4)
    assert rig.link.status.until == 6  # these are of its share
    server.guide(room=3, stop=False, env_steps=4)
    wait_until(lambda: rig.link.status.until == 7)
    other = ActorRig(rig.link._sender._config, tmp_path / "other spool", "other")
    other.join()
    wait_until(lambda: (rig.link.status.until, other.link.status.until) == (4 + 2, 2))  # half each, rounded up
    server.guide(room=0, stop=False, env_steps=4)
    wait_until(lambda: (rig.link.status.until, other.link.status.until) == (4, 0))
    other.close()


@pytest.mark.parametrize("spoil", [lambda data: data[:-1] + b"\0", lambda data: data[:-1], lambda data: data + b"\0"])
def test_a_policy_that_was_damaged_on_its_way_is_not_used(server, rig, spoil, monkeypatch) -> None:
    whole = PolicyMessage.chunks

    def damaged(self):
        for chunk in whole(self):
            chunk.data = spoil(chunk.data)
            yield chunk

    monkeypatch.setattr(PolicyMessage, "chunks", damaged)
    server.publish(1, {"weight": np.ones(3, np.float32)})
    rig.join()
    assert not rig.link.wait_for_policy(0.5)
    monkeypatch.undo()
    server.publish(2, {"weight": np.ones(3, np.float32)})
    assert rig.link.wait_for_policy(120) and rig.link.take_policy()[0] == 2
    before = rig.link._report.damaged_policies
    server.publish(3, {"weight": np.full(3, np.nan, np.float32)})
    wait_until(lambda: rig.link._report.damaged_policies == before + 1)
    assert rig.link.take_policy() is None


def test_the_learner_sees_its_actors(server, rig) -> None:
    session = rig.join()
    rig.link.report(
        produced=7,
        policy_version=5,
        refused_policies=1,
        held_seconds=0.5,
        practice_state="RECOVERY",
        practice={"practice/resets": 2.0},
    )
    wait_until(lambda: server.actors()["robot"].produced == 7)
    view = server.actors()["robot"]
    assert (view.session, view.policy_version, view.refused_policies, view.held_seconds) == (session, 5, 1, 0.5)
    assert (view.practice_state, view.practice) == ("RECOVERY", {"practice/resets": 2.0})
    assert view.silent_seconds < 60 and not view.left
    rig.finish()
    wait_until(lambda: server.actors()["robot"].left)
    assert any("robot joined (session 1)" in note for note in server.take_notes())


def test_a_new_session_takes_over_and_empties_the_old_spool(server, intake, rig, tmp_path: Path) -> None:
    first = rig.join()
    steps = steps_of(first, [10, 10])
    rig.put(steps[:15])
    wait_until(lambda: intake.totals().taken == 15)
    rig.link.close()
    rig.put(steps[15:18])
    rig.spool.close()
    again = ActorRig(config_for(server), tmp_path / "spool")
    second = again.join()
    assert second == first + 1
    later = steps_of(second, [4])
    again.put(later)
    again.finish()
    again.close()
    found = stored_steps(tmp_path / "replay")
    assert_same(found["robot", first], steps[:18])
    assert_same(found["robot", second], later)
    assert intake.totals()[:3] == (22, 22, 0)


def test_a_second_actor_of_the_same_name_puts_the_first_out(server, rig, tmp_path: Path) -> None:
    rig.join()
    other = ActorRig(config_for(server), tmp_path / "other")
    other.join()

    def refused() -> bool:
        try:
            return rig.link.status is None
        except TransportError as error:
            assert "session 1 of robot was replaced by 2" in str(error)
            return True

    wait_until(refused)
    other.close()


def test_steps_that_the_spool_lost_are_counted_as_refused(server, intake, rig) -> None:
    session = rig.join()
    steps = steps_of(session, [6, 6])
    rig.spool.append(6, rig.encoder.encode(steps[6]))
    rig.put(steps[7:])
    rig.finish()
    progress = intake.progress("robot", session)
    assert (progress.stored, progress.refused, progress.settled) == (6, 6, 12)


def test_a_last_step_that_had_no_room_on_the_disk_is_stored(intake, rig, tmp_path: Path, monkeypatch) -> None:
    session = rig.join()
    steps = steps_of(session, [6])
    rig.put(steps[:5])
    wait_until(lambda: intake.totals().taken == 5)
    with monkeypatch.context() as full:
        full.setattr(os, "writev", lambda file, data: 0)
        assert not rig.spool.append_last(5, rig.encoder.encode(steps[5]))
    rig.finish()
    assert_same(stored_steps(tmp_path / "replay")["robot", session], steps)


def test_commands(server) -> None:
    config = config_for(server)
    assert send_command(config, "pause") == f"run {RUN}: pause: accepted"
    send_command(config, "checkpoint", RUN)
    assert server.take_commands() == ["pause", "checkpoint"]
    with pytest.raises(TransportError, match="unknown command 'jump'; valid: pause, resume, checkpoint, stop"):
        send_command(config, "jump")
    with pytest.raises(TransportError, match="at most 32 actors can be connected"):
        send_command(config, "actors 33")
    with pytest.raises(TransportError, match="this is the learner of run run-1, not of run-2"):
        send_command(config, "stop", "run-2")
    server.close(0)
    impatient = dataclasses.replace(config, timeout_seconds=1.0)  # nobody answers
    with pytest.raises(TransportError, match=r"did not accept 'stop'.*Give run=FOLDER"):
        send_command(impatient, "stop")


def test_pictures_come_up_and_orders_and_pauses_go_down(server, rig) -> None:
    rig.join()
    server.watch(True)
    wait_until(lambda: rig.link.status.watched)
    rig.link.show({"wrist": b"jpeg"}, "")
    wait_until(lambda: server.actors()["robot"].pictures == {"wrist": b"jpeg"})
    rig.link.show({"wrist": bytes(LOCAL.message_bytes)}, "too large to be sent")
    wait_until(lambda: server.actors()["robot"].picture_problem == "too large to be sent")
    assert server.actors()["robot"].pictures == {"wrist": b"jpeg"}

    assert server.order("robot", "reset") and server.order("robot", "success")
    taken: list[str] = []
    wait_until(lambda: taken.extend(rig.link.take_orders()) or len(taken) == 2)
    assert taken == ["reset", "success"] and not server.order("nobody", "reset")

    server.pause(True)
    wait_until(lambda: rig.link.status.hold)
    server.guide(room=1, stop=False, env_steps=5)
    wait_until(lambda: rig.link.status.env_steps == 5)
    assert rig.link.status.hold and server.paused
    server.pause(False)
    wait_until(lambda: not rig.link.status.hold)


def test_closing_ends_the_wait_for_a_policy(rig) -> None:
    results: list[bool] = []
    waiting = threading.Thread(target=lambda: results.append(rig.link.wait_for_policy(600)))
    waiting.start()
    rig.link.close()
    waiting.join(60)
    assert results == [False]
