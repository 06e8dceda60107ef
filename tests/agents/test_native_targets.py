"""The native update as other processors get it: the same checks, compiled for their instruction sets.

What this machine does not have it cannot run; NEON, of ARM, is compiled on such machines alone.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.agents.parts.native import available, bfloat16_instructions

FILES = [str(Path(__file__).with_name(f"test_native_{name}.py")) for name in ("products", "update")]
COMPILER = """#!/bin/sh
for word; do
  case $word in -march=native) set -- "$@" {target} ;; *) set -- "$@" "$word" ;; esac
  shift
done
exec {compiler} "$@"
"""

CPU = Path("/proc/cpuinfo")
FLAGS = CPU.read_text().split() if CPU.exists() else []
TARGETS = [
    "-march=x86-64",
    # Without AVX-512, the update of this processor is that of x86-64-v3.
    *(["-march=x86-64-v3"] if "avx512f" in FLAGS else []),
    *(["-march=native -mno-amx-bf16"] if {"amx_bf16", "avx512_bf16"} <= set(FLAGS) else []),
]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are instruction sets of x86-64")
@pytest.mark.skipif(not available("float32")[0], reason=available("float32")[1])
@pytest.mark.parametrize("target", TARGETS)
def test_the_update_is_right_without_the_instructions_of_this_processor(target: str, tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(target=target, compiler=os.environ.get("CXX", "c++")))
    compiler.chmod(0o755)
    environment = os.environ | {"CXX": str(compiler), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = ["-m", "pytest", "-p", "no:xdist", "-k", "products or agrees", *FILES]
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    assert len(list((tmp_path / "cache" / "robo_rl" / "native").glob("*.so"))) == 1
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= 15


_REFUSED = """
import ctypes
import sys


class Stack(ctypes.Structure):
    _fields_ = (("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


memory = ctypes.create_string_buffer(8192)  # enough for the registers of AVX-512, too small for tiles
stack = Stack(ctypes.addressof(memory), 0, len(memory))
if ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None):
    raise SystemExit("the signal stack is refused")

from robo_rl.agents.parts.native import available

print(available("bfloat16")[1])
import pytest

sys.exit(pytest.main(["-p", "no:xdist", "-p", "no:faulthandler", "-k", "products or bfloat16", *sys.argv[1:]]))
"""


@pytest.mark.skipif(bfloat16_instructions() != "AMX", reason="this process does not multiply by AMX")
def test_the_update_is_right_where_the_operating_system_refuses_amx() -> None:
    """Linux refuses it to a process with an alternative signal stack on which the tiles cannot be saved."""
    done = subprocess.run([sys.executable, "-c", _REFUSED, *FILES], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert done.stdout.startswith("compiled with this machine's C++ compiler; bfloat16 by AVX512_BF16\n")
    assert int(done.stdout.split(" passed")[0].split()[-1]) >= 15


@pytest.mark.skipif(bfloat16_instructions() != "AMX", reason="this process does not multiply by AMX")
def test_an_update_by_amx_says_so() -> None:
    assert available("bfloat16") == (True, "compiled with this machine's C++ compiler; bfloat16 by AMX")
    assert available("float32") == (True, "compiled with this machine's C++ compiler")
