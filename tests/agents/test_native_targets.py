"""The native update as other processors get it: the same checks, compiled for their instruction sets.

What this machine does not have it cannot run; NEON, of ARM, is compiled on such machines alone.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.agents.parts.native import available

FILES = [str(Path(__file__).with_name(f"test_native_{name}.py")) for name in ("products", "update")]
COMPILER = """#!/bin/sh
for word; do
  case $word in -march=native) set -- "$@" {target} ;; *) set -- "$@" "$word" ;; esac
  shift
done
exec {compiler} "$@"
"""

CPU = Path("/proc/cpuinfo")
# Where there is no AVX-512, the update of this processor is that of x86-64-v3.
TARGETS = ["-march=x86-64", *(["-march=x86-64-v3"] if CPU.exists() and "avx512f" in CPU.read_text() else [])]


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
