"""The memory allocator's settings for messages: blocks of megabytes, allocated and freed hundreds of times a second."""

import ctypes
import functools
import sys

# Names and values of <malloc.h>.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3

_LARGEST_KEPT_BLOCK = 32 << 20  # the maximum that glibc accepts
_KEPT_BYTES = 64 << 20  # the size of a thread's heap: with less, the whole heap is returned to the system


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep a few hundred megabytes of freed memory for the next messages.

    Otherwise glibc returns large blocks to the system at once, and the kernel clears the memory of each message page
    by page, which is a fifth of the cost of receiving images. Return whether the allocator supports these settings.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = {_M_MMAP_THRESHOLD: _LARGEST_KEPT_BLOCK, _M_TRIM_THRESHOLD: 4 * _KEPT_BYTES, _M_TOP_PAD: _KEPT_BYTES}
    return all(mallopt(option, value) == 1 for option, value in options.items())
