"""Reports of stops by an actor, while it is held and afterwards."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module

from robo_rl.app import build_agent, build_backend, register_all_configs
from robo_rl.core import EmergencyStop, Interruption
from robo_rl.training import remote_actor
from robo_rl.transport import LinkStatus

from .test_remote_actor import OVERRIDES, Link, act


class EventfulLink(Link):
    """Link of a run that is held after two steps, and in which something happens at later queries of its status."""

    later = 0
    events: dict[int, Callable[[], None]]

    @property
    def status(self) -> LinkStatus:
        if len(self.records) >= 2:
            self.later += 1
            self.events.pop(self.later, lambda: None)()
        return super().status


@pytest.mark.parametrize(
    ("pressed", "released", "held", "reports"),
    [
        ((4,), (60,), 12, 1),  # in a pause, and released long after it
        ((4,), (8,), 12, 1),  # and released in the same pause
        ((4, 20), (12, 60), 30, 2),  # twice in one pause
        ((4,), (30,), 0, 1),  # without a pause
        ((4, 100), (60, 120), 12, 2),  # again, after further steps
        ((4, 100), (60, 120), 0, 2),
    ],
)
def test_each_stop_is_reported_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pressed: tuple[int, ...],
    released: tuple[int, ...],
    held: int,
    reports: int,
) -> None:
    monkeypatch.setattr(remote_actor, "WAIT_SECONDS", 0.0)
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("actor", overrides=[*OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop"])
    backend, stop = build_backend(config), EmergencyStop(tmp_path / "stop")
    link = EventfulLink({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=20)
    link.holds = {2: held}
    link.events = {query: lambda: stop.press("a test") for query in pressed} | dict.fromkeys(released, stop.rearm)
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [text for text in link.words if text.startswith("Stopped:")] == reports * [
        "Stopped: emergency stop (a test); when all is safe: robo-rl rearm"
    ]
    assert not link.events, "all of it happened"
