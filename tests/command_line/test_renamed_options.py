"""Former names of options: accepted, with a message."""

import pytest
from omegaconf import OmegaConf

from robo_rl.command_line.renamed_options import RENAMED, with_new_names

from ..rigs.composition import composed_config


def test_former_names_are_accepted_and_the_new_ones_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["record.path=a=b", "+record.path=c", "record.episodes=2", "--cfg", "job", "record.path"]
    new = ["record.output=a=b", "record.output=c", "record.episodes=2", "--cfg", "job", "record.path"]
    assert with_new_names("record", words) == new
    note = "robo-rl record: record.path is now record.output; the next release will not accept the old name\n"
    assert capsys.readouterr().err == 2 * note
    assert with_new_names("export", ["path=a", "output=b"]) == ["path=a", "output=b"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", RENAMED)
def test_commands_have_the_new_options_alone(command: str) -> None:
    config = composed_config(command.replace(" ", "_"))
    for former, new in RENAMED[command].items():
        *sections, name = new.split(".")
        section = OmegaConf.select(config, ".".join(sections)) if sections else config
        assert name in section and former.rpartition(".")[2] not in section
