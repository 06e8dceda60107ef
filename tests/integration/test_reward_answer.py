"""robo-rl reward answer: a person at a terminal, asked over HTTP by another process."""

import io
import subprocess
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from robo_rl.commands.reward_answer import read_parts
from robo_rl.rewards.vlm.endpoint import Endpoint, EndpointConfig, EndpointError


def test_a_person_answers(tmp_path):
    command = [sys.executable, "-m", "robo_rl.cli", "reward", "answer", "port=0", f"pictures={tmp_path / 'seen'}"]
    person = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = next(line for line in person.stdout if "answering at" in line).split()[2].rstrip(";")
        endpoint = Endpoint(EndpointConfig(url=address, model="person", cache=str(tmp_path / "cache"), retries=0))
        picture = np.random.default_rng(0).integers(0, 256, (6, 7, 3), dtype=np.uint8)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(endpoint.ask(("Is [it] open?", picture))))
        asking.start()
        shown = [next(person.stdout).strip() for _ in range(4)]
        assert shown[2] == "Is [it] open?"
        np.testing.assert_array_equal(np.asarray(Image.open(shown[3])), picture)
        print("1", file=person.stdin, flush=True)
        asking.join(20)
        assert answers == ["1"]
        person.stdin.close()  # as Ctrl-D
        with pytest.raises(EndpointError, match=r"nobody answers|RemoteProtocol|ReadError"):
            endpoint.ask(("And now?",))
        assert person.wait(20) == 0
    finally:
        person.kill()
        person.wait()
        person.stdout.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages": 1}',
        b'{"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]}',
        b'{"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]}]}',
    ],
)
def test_what_is_no_question_is_refused(body):
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        read_parts(body)


def test_plain_messages_are_questions_too():
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "png")
    assert read_parts(b'{"messages": [{"role": "user", "content": "Well?"}]}') == ["Well?"]
