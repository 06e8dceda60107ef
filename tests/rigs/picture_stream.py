"""A camera of the network: pictures as motion JPEG over HTTP, which may be taken away and put back."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np

RED_GREEN = (200, 40, 10)


def picture(width: int = 64, height: int = 48, blue: int = 10) -> np.ndarray:
    """Return an RGB picture, dark in its right half."""
    image = np.full((height, width, 3), (*RED_GREEN[:2], blue), np.uint8)
    image[:, width // 2 :] //= 4
    return image


def write_video(path: Path, count: int, rate: float = 20.0) -> str:
    """Write ``count`` pictures, each bluer than the one before; return the file."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), rate, (64, 48))
    for number in range(count):
        writer.write(cv2.cvtColor(picture(blue=10 + 200 * number // count), cv2.COLOR_RGB2BGR))
    writer.release()
    return str(path)


class PictureStream:
    """Serves pictures until it is stopped; at the same address when it is started again."""

    def __init__(self, rate: float = 50.0) -> None:
        self._rate, self._port = rate, 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        stopped = self._stopped = threading.Event()
        period = 1 / self._rate

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=picture")
                self.end_headers()
                number = 0
                while not stopped.is_set():
                    number += 1
                    bgr = cv2.cvtColor(picture(blue=10 + 10 * (number % 20)), cv2.COLOR_RGB2BGR)
                    data = cv2.imencode(".jpg", bgr)[1].tobytes()
                    head = f"--picture\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
                    try:
                        self.wfile.write(head.encode() + data + b"\r\n")
                    except OSError:
                        return
                    time.sleep(period)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
