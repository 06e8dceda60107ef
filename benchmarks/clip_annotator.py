"""A small vision-language model that scores pictures of a door: the bundled CLIP model behind OpenAI's interface.

    python benchmarks/clip_annotator.py

Prints its address. It reads which of the captions it knows are true of the picture (the model is a logistic regression
for each pair of picture and caption), and answers with the score of the furthest. It stands for a larger model, which
would find the score itself: what it knows of the door comes from pictures alone, with the mistakes of its sight.
"""

import base64
import io
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE, Popen
from sys import executable

import numpy as np
from PIL import Image
from safetensors.torch import load_file

from robo_rl.rewards.vision.encoder import ClipEncoder, load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig
from robo_rl.rewards.vision.files import find_files

SCORES = {
    "the gripper is near the door handle": 1,
    "the gripper is close to the door handle": 2,
    "the gripper is at the door handle": 3,
    "the door handle is turned": 5,
    "the door is ajar": 7,
    "the door is half open": 8,
    "the door is open": 10,
}
"""Of what is true of a picture, out of 10."""


@contextmanager
def annotator() -> Iterator[str]:
    """Serve in a process of its own; yield the address."""
    with Popen([executable, __file__], stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main() -> None:
    encoder = load_encoder(EncoderConfig("tabletop", cache_frames=0))
    assert isinstance(encoder, ClipEncoder)
    texts = encoder.texts(list(SCORES))
    weights = load_file(find_files("tabletop", None, download=False).weights)
    scale, bias = math.exp(float(weights["logit_scale"])), float(weights["logit_bias"])

    def score(picture: np.ndarray) -> int:
        (cosines,) = encoder.encode(picture[None]) @ texts.T
        return max(
            [value for value, cosine in zip(SCORES.values(), cosines, strict=True) if scale * cosine + bias > 0],
            default=0,
        )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            (part,) = (
                part for message in body["messages"] for part in message["content"] if part["type"] == "image_url"
            )
            data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
            answer = str(score(np.array(Image.open(io.BytesIO(data)).convert("RGB"))))
            reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": answer}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
