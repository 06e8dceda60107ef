"""A model's server that is right, slow, failing, malformed or expensive: a real one, in another process."""

import json
import os
import shutil
import time

import numpy as np
import pytest

from robo_rl.core import CheckpointError, ConfigError
from robo_rl.rewards.asking.answers import AnswerCache
from robo_rl.rewards.asking.endpoint import BudgetSpentError, Endpoint, EndpointConfig, EndpointError
from robo_rl.rewards.asking.inquiries import Inquiries

from ..rigs.vlm_server import requests, vlm_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    with vlm_server(folder) as url:
        yield folder, url


@pytest.fixture
def connect(server, tmp_path):
    """Return a function that makes an endpoint whose model behaves as its name says."""

    def make(model, **options):
        settings = {
            "url": server[1],
            "backoff_seconds": 0.05,
            "retries": 2,
            "timeout_seconds": 20,
            "cache": str(tmp_path / "cache"),
            **options,
        }
        return Endpoint(EndpointConfig(model=model, **settings))

    return make


def picture(value):
    return np.full((8, 8, 3), value, np.uint8)


def test_texts_and_pictures_arrive_and_the_answer_is_counted(connect, server):
    endpoint = connect("brightness", input_price=2.0, output_price=10.0)
    assert endpoint.ask(("Which?", picture(10), picture(200))) == "Picture 1 has 10.0000, picture 2 has 200.0000."
    request = requests(server[0])[-1]
    assert (request["path"], request["text"], request["key"]) == ("/v1/chat/completions", "Which?", None)
    cost = (100 * 2 + 20 * 10) / 1e6
    assert endpoint.metrics() == {"requests": 1, "input_tokens": 100, "output_tokens": 20, "cost": pytest.approx(cost)}


def test_the_same_question_is_asked_once_ever(connect, tmp_path):
    first = connect("counting").ask(("What?", picture(3)))
    again = connect("counting")
    assert again.ask(("What?", picture(3))) == first
    assert again.metrics()["requests"] == 0
    assert again.ask(("What?", picture(4))) != first
    assert connect("counting", parameters={"temperature": 1.0}).ask(("What?", picture(3))) != first
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b'{"answer": ')  # as a disk that was full leaves it
    assert connect("counting").ask(("What?", picture(3))) != first


def test_what_cannot_be_read_or_was_cut_is_asked_again(connect, tmp_path):
    first = connect("sloppy").ask(("Which?",), readable=lambda answer: False)
    again = connect("sloppy").ask(("Which?",))
    assert again != first == "answer 1"
    assert connect("sloppy").ask(("Which?",)) == again
    assert connect("sloppy").ask(("Which?",), readable=lambda answer: answer != again) not in (first, again)
    assert connect("cut").ask(("Which?",)) != connect("cut").ask(("Which?",))
    with pytest.raises(EndpointError, match=r"cut off before its first word: raise endpoint.parameters.max_tokens"):
        connect("cut early").ask(("Which?",))


def test_what_fails_in_passing_is_tried_again(connect):
    recovering = connect("recovering")  # 500, then a dropped connection, then right
    assert recovering.ask(("Well?",)) == "answer 3"
    assert recovering.metrics()["requests"] == 3
    began = time.monotonic()
    assert connect("busy").ask(("Now?",)) == "answer 2"
    assert time.monotonic() - began >= 0.5  # as the server asked


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("failing", "status 500.*out of memory"),
        ("dropping", "RemoteProtocolError"),
        ("malformed", "empty answer"),
        ("deep", "expected a chat completion"),
        ("endless", "more than 1,048,576 bytes"),
    ],
)
def test_what_goes_on_failing_is_given_up_and_named(connect, model, reason):
    endpoint = connect(model)
    with pytest.raises(EndpointError, match=rf"no answer in 3 attempts; the last: .*{reason}"):
        endpoint.ask(("Well?",))
    assert endpoint.metrics()["requests"] == 3


@pytest.mark.parametrize("model", ["slow", "dripping", "dripping headers"])
def test_a_slow_answer_is_not_waited_for(connect, model):
    began = time.monotonic()
    with pytest.raises(EndpointError, match=r"no whole answer within 0.5 s"):
        connect(model, timeout_seconds=0.5, retries=0).ask(("Well?",))
    assert time.monotonic() - began < 8  # the server drips for ten seconds


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_sent_to_this_machine_goes_past_a_proxy(connect, server, monkeypatch, host):
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        for each in (name, name.lower()):
            monkeypatch.setenv(each, "http://127.0.0.1:9")  # where nobody is
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MODELS_KEY", "sk-very-secret")
    url = server[1].replace("127.0.0.1", host)
    connect("brightness", url=url, key_variable="MODELS_KEY").ask((f"By {host}?", picture(10), picture(200)))
    assert requests(server[0])[-1]["key"] == "Bearer sk-very-secret"


def test_nobody_there(connect, tmp_path):
    config = EndpointConfig(url="http://127.0.0.1:9/v1", model="any", retries=0, cache=str(tmp_path))
    with pytest.raises(EndpointError, match="ConnectError"):
        Endpoint(config).ask(("Hello?",))


def test_the_budget_of_requests_is_kept_by_failures_too(connect):
    endpoint = connect("failing", most_requests=4)
    with pytest.raises(EndpointError, match="3 attempts"):
        endpoint.ask(("One?",))
    with pytest.raises(BudgetSpentError, match=r"the budget is spent: 4 requests; endpoint.most_requests"):
        endpoint.ask(("Two?",))


def test_the_budget_of_tokens_holds_over_a_resume(connect):
    endpoint = connect("counting", most_tokens=200)
    for number in range(2):
        endpoint.ask((f"{number}?",))
    resumed = connect("counting", most_tokens=200)
    resumed.load(endpoint.state())
    with pytest.raises(BudgetSpentError, match=r"240 tokens; endpoint.most_tokens"):
        resumed.ask(("2?",))
    assert resumed.ask(("1?",))  # known
    with pytest.raises(CheckpointError, match="endpoint"):
        resumed.load({})
    with pytest.raises(EndpointError, match="does not report how many tokens"):
        connect("uncounted", most_tokens=200).ask(("?",))


def test_an_empty_answer_is_paid_for_too(connect):
    endpoint = connect("silent", most_tokens=200, retries=5)
    with pytest.raises(BudgetSpentError, match="240 tokens"):
        endpoint.ask(("Well?",))
    assert endpoint.metrics() == {"requests": 2, "input_tokens": 200, "output_tokens": 40}


def test_a_count_that_is_none_is_not_counted(connect):
    endpoint = connect("boasting")
    endpoint.ask(("Well?",))
    assert endpoint.metrics()["input_tokens"] == 0


def test_the_key_is_sent_and_shown_nowhere(connect, server, monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    connect("right", key_variable="SOME_KEY").ask(("?",))
    assert requests(server[0])[-1]["key"] == "Bearer sk-secret"
    with pytest.raises(EndpointError) as caught:
        connect("refusing", key_variable="SOME_KEY").ask(("?",))
    assert "status 401" in str(caught.value) and "***" in str(caught.value) and "secret" not in str(caught.value)
    written = [file.read_text() for file in (tmp_path / "cache").iterdir()]
    assert written and not any("secret" in text for text in written)
    assert set(json.loads(written[0])) == {"answer"}


def test_a_key_that_is_missing_or_would_be_overheard_is_refused(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(ConfigError, match="no key in SOME_KEY"):
        Endpoint(EndpointConfig(model="m", key_variable="SOME_KEY"))
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    with pytest.raises(ConfigError, match="https if a key is sent"):
        Endpoint(EndpointConfig(url="http://example.com/v1", model="m", key_variable="SOME_KEY"))
    with pytest.raises(ConfigError, match="without a password"):
        EndpointConfig(url="https://me:secret@example.com/v1")
    with pytest.raises(ConfigError, match=r"endpoint.model"):
        Endpoint(EndpointConfig())


def test_whoever_asks_is_not_held_up(connect, server):
    endpoint = connect("waiting")
    inquiries = Inquiries(lambda question: endpoint.ask((question,)), workers=3)
    for question in ("a", "b", "c"):
        inquiries.put(question)
    assert inquiries.collect() == [] and inquiries.waiting
    while sum(request["model"] == "waiting" for request in requests(server[0])) < 3:  # all three at the same time
        time.sleep(0.01)
    (server[0] / "go").touch()
    found = []
    while inquiries.outstanding:
        found += inquiries.collect()
        time.sleep(0.01)
    assert sorted(question for question, _ in found) == ["a", "b", "c"]


def test_errors_come_back_as_answers_and_defects_as_what_they_are():
    def answer(question):
        raise EndpointError("no") if question == "mendable" else KeyError("defect")

    inquiries = Inquiries(answer, workers=1)
    inquiries.put("mendable")
    while inquiries.waiting:
        time.sleep(0.001)
    ((_, error),) = inquiries.collect()
    assert isinstance(error, EndpointError)
    inquiries.put("defect")
    while inquiries.waiting:
        time.sleep(0.001)
    with pytest.raises(KeyError, match="defect"):
        inquiries.collect()


def test_an_answer_counts_though_it_cannot_be_kept(connect, tmp_path, capsys):
    endpoint = connect("brightness")
    shutil.rmtree(tmp_path / "cache")
    assert endpoint.ask(("Which?", picture(10), picture(200))).startswith("Picture 1 has 10")
    assert "cannot be written" in capsys.readouterr().err


def test_a_user_without_a_home_is_told_where_answers_are_set(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where there is no home
    with pytest.raises(ConfigError, match=r"no place for answers \(.*\): set XDG_CACHE_HOME or endpoint.cache"):
        AnswerCache(None)
    AnswerCache(str(tmp_path / "given")).keep(b"asked", "yes")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    AnswerCache(None).keep(b"asked", "no")
    assert AnswerCache(str(tmp_path / "given")).find(b"asked") == "yes"
    assert AnswerCache(str(tmp_path / "robo_rl" / "answers")).find(b"asked") == "no"
