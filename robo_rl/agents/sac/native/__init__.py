"""The update of soft actor-critic in C++ for the CPU: hand-written gradients, fused passes, own matrix kernels.

:class:`NativeUpdate` does what :class:`..update.TorchUpdate` defines, several times faster, on the memory of the
same tensors; :class:`NativeCloning` does a step of :class:`..cloning.BehaviourCloning`. They are compiled on first use;
:func:`available` says whether that is possible here.

The result does not depend on the number of threads, and equal arguments give equal bits on the same machine.
"""

from .cloning import NativeCloning
from .library import available, lacks, library_path, multiplies_bfloat16
from .update import NativeUpdate

__all__ = ["NativeCloning", "NativeUpdate", "available", "lacks", "library_path", "multiplies_bfloat16"]
