"""robo-rl reward answer: a person at a terminal or in a browser, asked over HTTP by another process."""

import io
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from robo_rl.commands import reward_answer
from robo_rl.operators.questions import Question, read_form, read_parts, serving
from robo_rl.rewards.asking.endpoint import Endpoint, EndpointConfig, EndpointError
from robo_rl.rewards.asking.oracles import ComparingOracle, ScoringOracle
from robo_rl.rewards.modules.keypoints import read_cells, under_grid

from ..rigs.browser import PATIENCE_SECONDS, open_browser, wait_until


def test_a_person_answers(tmp_path):
    command = [sys.executable, "-m", "robo_rl.cli", "reward", "answer", "answer.port=0"]
    command.append(f"answer.pictures={tmp_path / 'seen'}")
    person = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = next(line for line in person.stdout if "answering at" in line).split()[2].rstrip(";")
        endpoint = Endpoint(EndpointConfig(url=address, model="person", cache=str(tmp_path / "cache"), retries=0))
        picture = np.random.default_rng(0).integers(0, 256, (6, 7, 3), dtype=np.uint8)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(endpoint.ask(("Is [it] open?", picture))))
        asking.start()
        printed = [next(person.stdout).strip() for _ in range(5)]
        assert printed[2] == "Is [it] open?"
        np.testing.assert_array_equal(np.asarray(Image.open(printed[3])), picture)
        print("1\n", file=person.stdin, flush=True)
        asking.join(20)
        assert answers == ["1"]
        assert "an empty line" in printed[4]
        person.stdin.close()  # as Ctrl-D
        with pytest.raises(EndpointError, match=r"nobody left to answer|RemoteProtocol|ReadError"):
            endpoint.ask(("And now?",))
        assert person.wait(20) == 0
    finally:
        person.kill()
        person.wait()
        person.stdout.close()


def test_whoever_asked_and_has_gone_is_not_answered(tmp_path, monkeypatch, capsys):
    with serving(0) as server, ThreadPoolExecutor(1) as asking:
        settings = {"url": f"http://127.0.0.1:{server.server_port}/v1", "model": "person", "cache": str(tmp_path)}
        with pytest.raises(EndpointError, match=r"no whole answer within 1.5 s"):
            Endpoint(EndpointConfig(**settings, retries=0, timeout_seconds=1.5)).ask(("Which?",))
        wait_until(lambda: server.answers[0].cancelled())
        answer = asking.submit(Endpoint(EndpointConfig(**settings)).ask, ("And now?",))
        monkeypatch.setattr("sys.stdin", io.StringIO("1\n\n"))
        terminal = threading.Thread(target=reward_answer._ask_in_terminal, args=(server, str(tmp_path)), daemon=True)
        terminal.start()
        assert answer.result(PATIENCE_SECONDS) == "1"
    assert "Which?" not in capsys.readouterr().out
    gone = Question([], {}, Future())
    gone.answer.cancel()
    assert not gone.give("1")


CODE = "```python\ndef reward(x):\n    y = -x\n\n    return y\n```"


@pytest.mark.parametrize(
    ("typed", "texts"),
    [
        ("1\n\n", ["1"]),
        ("\n1\nand more\n  \n\n2\n", ["1\nand more", "2"]),
        (f"{CODE}\n\n3\n\n", [CODE, "3"]),
        (f"Like this:\n{CODE}\nwell\n\n", [f"Like this:\n{CODE}", "well"]),
    ],
)
def test_a_text_at_a_terminal_may_have_many_lines(typed, texts, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    for text in texts:
        assert reward_answer.read_text() == text
    with pytest.raises(EOFError):
        reward_answer.read_text()


def test_a_person_at_a_terminal_writes_code_and_then_chooses(tmp_path, monkeypatch):
    with serving(0) as server, ThreadPoolExecutor(1) as asking:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        endpoint = Endpoint(EndpointConfig(url=url, model="person", cache=str(tmp_path)))
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{CODE}\n\n1\n2\n"))
        terminal = threading.Thread(target=reward_answer._ask_in_terminal, args=(server, str(tmp_path)), daemon=True)
        terminal.start()
        assert asking.submit(endpoint.ask, ("Write a reward.",)).result(PATIENCE_SECONDS) == CODE
        form = {"choices": [["1", "One"], ["2", "Two"]]}
        for number in ("1", "2"):
            assert asking.submit(endpoint.ask, (f"Is it {number}?",), form).result(PATIENCE_SECONDS) == number


def test_a_person_answers_on_a_page_by_buttons_cells_and_words(tmp_path):
    """The modules' own questions: which of two pictures, how good one is, and waypoints touched on a grid."""
    command = [sys.executable, "-m", "robo_rl.cli", "reward", "answer", "answer.port=0", "answer.device=browser"]
    command.append("web.address=127.0.0.1:0")
    with open_browser(tmp_path / "profile") as browser:
        person = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = next(line for line in person.stdout if "answering at" in line).split()[2].rstrip(";")
            link = next(line for line in person.stdout if "Answer at" in line).split()[2]
            endpoint = Endpoint(
                EndpointConfig(url=address, model="person", retries=0, timeout_seconds=PATIENCE_SECONDS)
            )
            browser.set_window_size(1000, 1400)
            browser.get(link)
            wait_until(lambda: browser.find_element("id", "number").text == "Nothing is asked now")
            dark, bright = (np.full((30, 40, 3), value, np.uint8) for value in (10, 200))
            with ThreadPoolExecutor(1) as asking:

                def wait_for_question(number, pictures):
                    """Wait until a question is shown, with its pictures."""
                    wait_until(lambda: browser.find_element("id", "number").text == f"Question {number}")
                    widths = "return [...document.querySelectorAll('#parts img')].map((image) => image.naturalWidth)"
                    wait_until(lambda: all(width > 0 for width in browser.execute_script(widths)))
                    assert len(browser.execute_script(widths)) == pictures

                comparing = ComparingOracle(endpoint, "images/front", "it is bright", analysis=False)
                answer = asking.submit(comparing._question, (dark, bright))
                wait_for_question(1, 2)
                assert "it is bright" in browser.find_element("id", "parts").text
                buttons = browser.find_elements("css selector", "#choices button")
                (button,) = (each for each in buttons if each.text == "Picture 2")
                button.click()
                assert comparing._read(answer.result(PATIENCE_SECONDS)) == 1.0

                scoring = ScoringOracle(endpoint, "images/front", "it is bright", levels=4)
                answer = asking.submit(scoring._question, (dark,))
                wait_for_question(2, 1)
                browser.find_element("css selector", "#choices button[data-answer='3']").click()
                assert scoring._read(answer.result(PATIENCE_SECONDS)) == 0.75

                answer = asking.submit(endpoint.ask, ("Where?", under_grid(bright, 8)), {"grid": 8})
                wait_for_question(3, 1)
                picture = browser.find_element("css selector", "#parts img")
                width, height = picture.size["width"], picture.size["height"]
                actions = pytest.importorskip("selenium.webdriver").ActionChains
                for column, row in ((3, 8), (6, 1)):
                    offset = ((column - 0.5) / 8 - 0.5) * width, ((row - 0.5) / 8 - 0.5) * height
                    actions(browser).move_to_element_with_offset(picture, *map(round, offset)).click().perform()
                browser.find_element("css selector", "#said button").click()
                assert read_cells(answer.result(PATIENCE_SECONDS), 8) == [[3, 8], [6, 1]]

                answer = asking.submit(endpoint.ask, ("What is it?",))
                wait_for_question(4, 0)
                text = browser.find_element("id", "text")
                text.send_keys("a <b>door</b>\n\nand é\n")
                lines = 2000 * "# a line\n"  # more than a message of other pages may hold
                browser.execute_script("arguments[0].value += arguments[1]", text, lines + "that is all")
                browser.find_element("css selector", "#said button").click()
                assert answer.result(PATIENCE_SECONDS) == f"a <b>door</b>\n\nand é\n{lines}that is all"

                answer = asking.submit(endpoint.ask, ("How many?",), {"choices": [["1", "One"]]})
                wait_for_question(5, 0)
                browser.find_element("id", "text").send_keys("2\n")
                assert answer.result(PATIENCE_SECONDS) == "2"
            hasty = Endpoint(EndpointConfig(url=address, model="person", retries=0, timeout_seconds=2))
            with pytest.raises(EndpointError, match="no whole answer within 2 s"):
                hasty.ask(("Is anybody there?",))
            wait_until(lambda: browser.find_element("id", "number").text == "Nothing is asked now")
            assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
            person.send_signal(signal.SIGINT)
            assert person.wait(60) == 0
        finally:
            person.kill()
            person.wait()
            person.stdout.close()


@pytest.mark.parametrize("header", ["", "[]", "3", '{"choices": 1}', '{"grid": "x"}', '{"grid": 1e999}', "[" * 10_000])
def test_a_form_that_cannot_be_read_is_none(header):
    assert read_form(header) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages": 1}',
        b'{"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]}',
        b'{"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_question_is_refused(body):
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        read_parts(body)


def test_plain_messages_are_questions_too():
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "png")
    assert read_parts(b'{"messages": [{"role": "user", "content": "Well?"}]}') == ["Well?"]
