"""Encoding of a success that may be unknown as a number."""

SUCCESS_UNKNOWN = -1
SUCCESS_CODES = SUCCESS_UNKNOWN, 0, 1
"""All numbers that encode a success."""


def encode_success(success: bool | None) -> int:
    """Return 1, 0, or -1 if the success is unknown."""
    return SUCCESS_UNKNOWN if success is None else int(success)


def decode_success(value: int) -> bool | None:
    """Inverse of :func:`encode_success`."""
    return None if value == SUCCESS_UNKNOWN else bool(value)
