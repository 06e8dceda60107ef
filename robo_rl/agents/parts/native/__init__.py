"""Updates in C++ for the CPU, with hand-written gradients, fused passes and matrix kernels.

:class:`NativeCloning` takes a step of :class:`..cloning.BehaviourCloning` several times faster, in the memory of the
same tensors; :class:`robo_rl.agents.sac.native_update.NativeUpdate` does an update of soft actor-critic, and
:class:`.flow_update.NativeFlowUpdate` one of an agent with critics of chunks and a flow. They are compiled on first
use; :func:`available` returns whether that is possible on this machine.

The result does not depend on the number of threads, and equal arguments give equal bits on the same machine.
"""

from .cloning import NativeCloning
from .library import available, bfloat16_instructions, library_path, multiplies_bfloat16

__all__ = ["NativeCloning", "available", "bfloat16_instructions", "library_path", "multiplies_bfloat16"]
