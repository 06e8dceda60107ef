"""Settings of the memory allocator for messages of megabytes, allocated and freed hundreds of times per second."""

import ctypes
import functools
import sys

# Names and values from <malloc.h>.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3

_LARGEST_KEPT_BLOCK = 32 << 20  # largest value that glibc accepts
_KEPT_BYTES = 64 << 20  # size of a thread's heap: with a smaller value, the whole heap is returned to the system


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep a few hundred megabytes of freed memory for the next messages.

    Otherwise glibc returns large blocks to the system at once, and the kernel clears the memory of each message page by
    page, which takes a fifth of the time of receiving images. Return whether the allocator supports these settings.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = {_M_MMAP_THRESHOLD: _LARGEST_KEPT_BLOCK, _M_TRIM_THRESHOLD: 4 * _KEPT_BYTES, _M_TOP_PAD: _KEPT_BYTES}
    return all(mallopt(option, value) == 1 for option, value in options.items())
