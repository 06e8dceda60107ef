"""docs/guide/improve_a_policy.md: a clone is corrected, as run and file; a flow is steered; a function is a base."""

from pathlib import Path

from ..rigs.guide import SMALL, Reader

CLONE = ["agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=20", "run.env_steps=0"]
RUN = [word for word in SMALL if not word.startswith(("agent.random", "agent.pretrain", "run.env_steps"))]
RUN += ["run.env_steps=15", "agent.actor_delay=2"]
FINAL = [word for word in SMALL if word.startswith(("run.final", "run.video"))]
OFFLINE = [word for word in SMALL if word.startswith(("demonstrations", "run.evaluation", "run.final", "run.video"))]


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    reader = Reader("improve_a_policy.md", tmp_path)
    reader.follow("robo-rl train task=push_cube agent=bc", *OFFLINE, *CLONE)
    output = reader.follow("robo-rl train task=push_cube agent=residual base.run", *RUN)
    assert "Base policy runs/clone (task push_cube, agent bc, step 0); residuals of up to 0.2" in output
    output = reader.follow("robo-rl train task=push_cube agent=residual base.run=runs/clone base.residual_scale", *RUN)
    assert "residuals of up to 0.5, of up to 0.05 at first" in output
    reader.follow("robo-rl deploy", "observations=20")
    output = reader.follow("robo-rl train task=push_cube agent=residual base.policy", *RUN)
    assert "Base policy clone.onnx (task push_cube, agent bc, step 0)" in output
    reader.follow("robo-rl collect", "episodes=2", "only_successful=false")  # a policy this small never succeeds
    output = reader.follow("robo-rl train task=push_cube agent=bc demonstrations.path", *CLONE, *FINAL)
    assert "learning from 2 failures" in output
    output = reader.follow("robo-rl data edit")
    assert "datasets/both holds 4 episodes" in output
    both = ["agent.hidden=[32]", "agent.pretrain_steps=10", "agent.flow_steps=2", "run.env_steps=0"]
    reader.follow("robo-rl train task=push_cube agent=flow agent.action_chunk", *both, *FINAL)
    flow = ["agent.hidden=[32]", "agent.batch_size=32", "agent.pretrain_steps=20", "agent.flow_steps=2"]
    reader.follow("robo-rl train task=push_cube agent=flow run.dir", *OFFLINE, *flow, "run.env_steps=0")
    online = ["run.env_steps=15", "agent.learning_starts=5", "agent.actor_delay=8"]
    output = reader.follow("robo-rl train task=push_cube agent=dsrl", *OFFLINE, *flow, *online)
    assert "Started from flow (task push_cube, agent flow, step 0" in output
    assert reader.run_python().startswith("success ")
