"""A server of chat completions with the faults of real ones, in a process of its own: python vlm_server.py FOLDER.

The name of the model says how it behaves. It prints its port, and leaves requests in
FOLDER/requests.jsonl.
"""

import base64
import io
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image

CALLS: Counter[str] = Counter()
USAGE = {"prompt_tokens": 100, "completion_tokens": 20}


def pictures(body):
    parts = [part for message in body["messages"] for part in message["content"] if part["type"] == "image_url"]
    data = [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in parts]
    return [np.asarray(Image.open(io.BytesIO(each))).astype(float) for each in data]


def texts(body):
    return "\n".join(
        part["text"] for message in body["messages"] for part in message["content"] if part["type"] == "text"
    )


def red_things(picture):
    """Return rows and columns of red pixels."""
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    return np.nonzero((red > 1.6 * green) & (red > 1.6 * blue) & (red > 60))


def nearness(picture):
    """Return how near the red things are to the dark fingers of the hand, at most 0: minus a share of the picture."""
    fingers = np.nonzero((picture.max(-1) < 50) & (np.arange(len(picture))[:, None] > 0.3 * len(picture)))
    red = red_things(picture)
    if not len(red[0]) or not len(fingers[0]):
        return -1.0
    return -np.hypot(*(one.mean() - other.mean() for one, other in zip(red, fingers, strict=True))) / len(picture)


def lift_red(body, cells=12):
    """Return the cell of the red things, and one above it, as KAGI asks."""
    (picture,) = pictures(body)
    row, column = (
        int(each.mean() / edge * cells) + 1 for each, edge in zip(red_things(picture), picture.shape[:2], strict=True)
    )
    return f"The cube is red.\n{[[column, row], [column, max(1, row - 1)]]}"


def judge(body, value):
    """Answer in two stages, as RL-VLM-F asks: numbers for the pictures, then a label from these."""
    found = pictures(body)
    if len(found) == 2:
        return f"Picture 1 has {value(found[0]):.4f}, picture 2 has {value(found[1]):.4f}."
    words = texts(body).replace(",", " ").split()
    first, second = (float(words[i + 1].rstrip(".")) for i, word in enumerate(words) if word == "has")
    return "-1" if abs(first - second) < 0.005 else f"**Answer: {int(second > first)}**"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model = body["model"]
        CALLS[model] += 1
        with (Path(sys.argv[1]) / "requests.jsonl").open("a") as log:
            seen = {"model": model, "path": self.path, "key": self.headers.get("Authorization"), "text": texts(body)}
            log.write(json.dumps(seen) + "\n")
        if model == "slow":
            time.sleep(3)
        elif model == "waiting":
            while not (Path(sys.argv[1]) / "go").exists():
                time.sleep(0.02)
        elif model == "dripping":
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            with suppress(OSError):
                for _ in range(100):
                    self.wfile.write(b" ")
                    time.sleep(0.1)
            return
        elif model == "dripping headers":
            self.close_connection = True
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                for _ in range(100):
                    self.wfile.write(b"X-And: so on\r\n")
                    time.sleep(0.1)
            return
        elif model == "dropping" or (model == "recovering" and CALLS[model] == 2):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        elif model == "failing" or (model == "recovering" and CALLS[model] == 1):
            self.reply(500, {"error": {"message": "out of memory"}})
            return
        elif model == "busy" and CALLS[model] == 1:
            self.reply(429, {"error": {"message": "slowly"}}, {"Retry-After": "0.5"})
            return
        elif model == "refusing":
            self.reply(401, {"error": {"message": f"wrong key: {self.headers.get('Authorization')}"}})
            return
        elif model == "malformed":
            self.reply(200, {"choices": [{"message": {"content": None}}]})
            return
        elif model == "deep":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"[" * 100_000)
            return
        elif model == "endless":
            self.reply(200, self.completion("x" * 2_000_000))
            return
        if model == "brightness":
            answer = judge(body, np.mean)
        elif model == "near":
            answer = judge(body, nearness)
        elif model == "scores":
            time.sleep(0.1)
            answer = f"It is quite bright.\nScore: {round(10 * np.mean(pictures(body)[0]) / 255)}"
        elif model == "lift red":
            answer = lift_red(body)
        elif model == "puzzled":
            answer = "It is hard to say."
        elif model in ("silent", "cut early"):
            answer = ""
        else:
            files = [Path(sys.argv[1]) / f"{name}.txt" for name in (f"{model}_{CALLS[model]}", model)]
            answer = next((file.read_text() for file in files if file.exists()), f"answer {CALLS[model]}")
        usage = {"uncounted": None, "boasting": {"prompt_tokens": 10**30, "completion_tokens": 20}}.get(model, USAGE)
        self.reply(200, self.completion(answer, usage, "length" if model.startswith("cut") else "stop"))

    def completion(self, answer, usage=None, reason="stop"):
        choice = {"message": {"role": "assistant", "content": answer}, "finish_reason": reason}
        return {"choices": [choice]} | ({} if usage is None else {"usage": usage})

    def reply(self, status, content, headers=()):
        data = json.dumps(content).encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def vlm_server(folder):
    """Run the server until the block ends; yield the address for ``endpoint.url``."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen([sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def requests(folder):
    """Return what the server was asked."""
    file = folder / "requests.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class Server(ThreadingHTTPServer):
    # Connections that wait to be accepted; with the usual 5, more that come at once are refused.
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
