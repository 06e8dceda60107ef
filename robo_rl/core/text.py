"""Cleaning of untrusted text before it reaches a terminal, a log or a page."""

_KEPT = "\n\t"
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT}
# Characters that change the reading direction or are invisible, and surrogates, which cannot be encoded.
_CONTROLS |= dict.fromkeys(
    (0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), *range(0xD800, 0xE000), 0xFEFF), "\ufffd"
)


def printable(text: str) -> str:
    """Return ``text`` with all control characters except line breaks and tabs replaced by U+FFFD.

    Terminals interpret control characters: they clear the screen, move the cursor, set the title or paste text.
    """
    return text.translate(_CONTROLS)
