"""The memory of messages: blocks of megabytes that come and go hundreds of times a second."""

import ctypes
import functools
import sys

# Names and values of <malloc.h>.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3

_LARGEST_KEPT_BLOCK = 32 << 20  # glibc takes no larger one
_KEPT_BYTES = 64 << 20  # the size of a heap of a thread: less and it is given back whole


@functools.cache
def keep_freed_memory() -> bool:
    """Let this process keep up to some hundred megabytes that it frees, for the next messages.

    Otherwise glibc gives large blocks back to the system at once, and each message's memory is cleared by the kernel
    page by page: a fifth of what it costs to take images in. Returns whether the allocator is one that can be told.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = {_M_MMAP_THRESHOLD: _LARGEST_KEPT_BLOCK, _M_TRIM_THRESHOLD: 4 * _KEPT_BYTES, _M_TOP_PAD: _KEPT_BYTES}
    return all(mallopt(option, value) == 1 for option, value in options.items())
