"""Updates in C++ for the CPU: hand-written gradients, fused passes, own matrix kernels.

:class:`NativeCloning` does a step of :class:`..cloning.BehaviourCloning`, several times faster, on the memory of the
same tensors; :class:`robo_rl.agents.sac.native_update.NativeUpdate` an update of soft actor-critic. They are compiled
on first use; :func:`available` says whether that is possible here.

The result does not depend on the number of threads, and equal arguments give equal bits on the same machine.
"""

from .cloning import NativeCloning
from .library import available, lacks, library_path, multiplies_bfloat16

__all__ = ["NativeCloning", "available", "lacks", "library_path", "multiplies_bfloat16"]
