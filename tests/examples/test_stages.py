"""docs/guide/stages.md: its commands train and evaluate, its program steps the machine."""

import re
from pathlib import Path

from ..rigs.guide import SMALL, Reader

RUN = [*SMALL, "demonstrations.episodes=0", "agent.pretrain_steps=0", "run.env_steps=60"]


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    reader = Reader("stages.md", tmp_path)
    reader.write_files()
    output = reader.follow("robo-rl train task=reach task.machine=gates.yaml run.dir=runs/gates", *RUN)
    assert re.search(r"Reached left_gate \d+ %, right_gate \d+ %, goal \d+ %, done \d+ %, failed \d+ %", output)
    assert "Reached left_gate" in reader.follow("robo-rl eval", "episodes=2", "video=null")
    reader.follow("robo-rl train task=reach task.machine=gates.yaml run.dir=runs/no_state", *RUN)
    lines = reader.run_python().split("\n")
    assert [line.split()[0] for line in lines if line] == [
        "left_gate",
        "right_gate",
        "right_gate",
        "goal",
        "goal",
        "done",
    ]
