"""Sandboxed process, which reads rows from standard input and writes their rewards to standard output.

It is started as a script, and loads no other module of the package except ``language.py`` in the same folder. Its
arguments are the CPU seconds for each request and the bytes of memory. Messages in both directions are a line of JSON,
followed by float64 data if the message has any.
"""

import json
import resource
import runpy
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


def limit(memory: int) -> None:
    """Limit memory, files and processes to the needs of reward code."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory += pages * resource.getpagesize()  # so that memory which the interpreter has already mapped is not counted
    limits = {"RLIMIT_AS": memory, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0, "RLIMIT_NPROC": 0, "RLIMIT_NOFILE": 3}
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def limit_processor(seconds: int) -> None:
    """Let the system end this process after ``seconds`` of additional processor time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + 1 + seconds, resource.RLIM_INFINITY))


def serve(language: dict[str, Any], source: BinaryIO, sink: BinaryIO, cpu_seconds: int) -> None:
    """Read the code, then answer requests until the input ends.

    Args:
        language: definitions of ``language.py``.
        source: stream of requests.
        sink: stream of answers.
        cpu_seconds: processor time for each answer.
    """

    def send(**facts: object) -> None:
        sink.write(json.dumps(facts).encode() + b"\n")

    limit_processor(cpu_seconds)
    try:
        reward = language["compile_reward"](json.loads(source.readline())["code"])
    except language["CodeError"] as error:
        send(error=str(error))
        sink.flush()
        return
    send()
    sink.flush()
    while line := source.readline():
        limit_processor(cpu_seconds)
        count, rows = json.loads(line)["shape"]
        columns = np.frombuffer(source.read(8 * count * rows)).reshape(count, rows)
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(reward(*columns))
            if np.iscomplexobj(result):
                raise ValueError("the reward is a complex number: a root or power of something negative")
            result = result.astype(np.float64)
            values = np.ascontiguousarray(np.broadcast_to(result, rows))
        except Exception as error:
            send(error=f"{type(error).__name__}: {error}")
        else:
            send()
            sink.write(values.tobytes())
        sink.flush()


if __name__ == "__main__":
    definitions = runpy.run_path(str(Path(__file__).with_name("language.py")))
    limit(int(sys.argv[2]))
    serve(definitions, sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
