"""Refusals that wait for the ledger: their size in memory and their entries."""

from collections.abc import Iterable
from typing import Any

from robo_rl.core import Refusal


def refusal_bytes(refusal: Refusal) -> int:
    """Return the approximate memory of a refusal that waits for the disk [bytes]."""
    return 256 + len(refusal.reason)


def ledger_entries(refusals: Iterable[tuple[tuple[str, int], Refusal]]) -> list[dict[str, Any]]:
    """Return the entries of the ledger for refusals.

    Refusals of consecutive steps of a session share an entry, with the reason of the first, because an actor may send
    thousands of such steps per second for hours.
    """
    entries: list[dict[str, Any]] = []
    newest: dict[tuple[str, int], dict[str, Any]] = {}
    for key, item in refusals:
        entry = newest.get(key)
        if entry is not None and entry["sequence"] + entry["count"] == item.sequence:
            entry["count"] += item.count
            continue
        counts = {"sequence": item.sequence, "count": item.count}
        newest[key] = {"actor": key[0], "session": key[1], **counts, "refused": item.reason}
        entries.append(newest[key])
    return entries
