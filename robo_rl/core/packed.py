"""Sizes that compressed data declares in its first bytes."""


def zstd_size(data: bytes | memoryview) -> int:
    """Return the content size that a Zstandard frame declares [bytes], or -1 (RFC 8878, 3.1.1.1)."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd":
        return -1
    descriptor = data[4]
    is_single_segment = bool(descriptor & 0x20)
    start = 5 + (not is_single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = (int(is_single_segment), 2, 4, 8)[descriptor >> 6]
    if width == 0 or len(data) < start + width:
        return -1
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def blosc_size(data: bytes | memoryview) -> int:
    """Return the content size that a Blosc buffer declares [bytes], or -1 for other data (c-blosc, README_HEADER)."""
    if len(data) < 16 or data[0] not in (1, 2):
        return -1
    return int.from_bytes(data[4:8], "little")
