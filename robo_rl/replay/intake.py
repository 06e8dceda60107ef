"""Intake of steps from many actors: each step is stored once, in order, as part of an episode."""

import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from robo_rl.core import (
    PASSED,
    DataError,
    EnvSpec,
    Refusal,
    RoboRLError,
    SessionProgress,
    Transition,
    parse_json,
    reading,
    whole_number,
    write_durably,
)

from .disk import CommitLog, disk_errors, make_folder
from .refusals import ledger_entries, refusal_bytes
from .ring import ReplayRing
from .session_numbers import MOST_ACTORS, SessionNumbers
from .store import EpisodeStore

EPISODES_FOLDER = "episodes"
LEDGER = "ledger.jsonl"
RETRY_SECONDS = 1.0
COMMIT_SECONDS = 0.5
"""Shortest time between the starts of two commits, unless a caller waits for one [s]. The cost of a commit hardly
depends on its size.
"""

OPEN_BYTES = 64 << 20
OPEN_STEPS = 100_000
"""Limits of an open episode in memory [bytes, steps]. A longer episode is stored in several pieces.

An actor normally begins a new piece before this limit, which protects the memory from an actor that does not.
"""

_Key = tuple[str, int]


@dataclass
class _Session:
    """One session of an actor. Steps below ``settled`` are on disk; steps below ``wanted`` are at least in memory."""

    wanted: int = 0
    settled: int = 0
    stored: int = 0
    refused: int = 0
    open: list[Transition] = field(default_factory=list)
    open_bytes: int = 0

    def progress(self) -> SessionProgress:
        return SessionProgress(self.wanted, self.settled, self.stored, self.refused)


class IntakeTotals(NamedTuple):
    """Steps of all sessions.

    Attributes:
        taken: steps received; they are stored or refused, or will be.
        stored: steps on disk.
        refused: refused steps, whose number and reason are on disk.
        duplicates: steps that arrived again since the start of the process, and were ignored.
    """

    taken: int
    stored: int
    refused: int
    duplicates: int


class Intake:
    """Receives the steps of all actors: passes them to the learner at once, and stores them when their episode ends.

    A step is settled once its episode is committed to the :class:`EpisodeStore`, or its refusal to the ledger beside
    the store. Episodes of one actor are stored in order. A gap, or the end of the session, closes an episode, so that
    observations are never paired across it. A very long episode is stored in pieces. A thread stores the episodes, and
    puts many episodes into one commit if they arrive quickly.

    Implements :class:`robo_rl.core.TransitionInbox`.

    Args:
        path: folder with ``episodes`` (a data set) and ``ledger.jsonl``; it is made if it is missing.
        spec: spec of the environment.
        backlog_bytes: most bytes that may wait for the disk or for the learner; beyond this, :meth:`blocked` returns a
            reason. Steps of open episodes do not count, because they wait for the end of their episode.

    Raises:
        DataError: if the folder holds data of another environment, is damaged, or is in use.
    """

    def __init__(self, path: Path, spec: EnvSpec, backlog_bytes: int = 512 << 20) -> None:
        self.path = path
        episodes = path / EPISODES_FOLDER
        if not episodes.exists():
            EpisodeStore.create(episodes, spec, {"source": "actors"}).close()
        if not (path / LEDGER).exists():
            with disk_errors(path, "create the ledger"):
                make_folder(path)
                write_durably(path / LEDGER, b"")
        self.store = EpisodeStore.open(episodes, "a")
        try:
            self.store.check_against(spec)
            self._ledger = CommitLog(path / LEDGER, writable=True)
            self._sessions, self._numbers = _recover_sessions(self.store, self._ledger, path / LEDGER)
        except BaseException:
            self.store.close()
            raise
        # 256 bytes stand for the memory of a step besides its arrays.
        self._step_bytes = 256 + sum(array.nbytes for array in spec.observation.values())
        self._backlog_bytes = backlog_bytes
        self._unstored_bytes = 0
        self._fresh: deque[Transition] = deque()
        self._fresh_bytes = 0
        self._queue: deque[tuple[_Key, list[Transition] | Refusal]] = deque()
        self._duplicates = 0
        self._fault = ""
        self._is_urgent = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._store_regularly, name="intake-store", daemon=True)
        self._thread.start()

    # --- for the transport -------------------------------------------------------------------------------------------

    def open_session(self, actor: str, newest: int) -> int:
        """Return a session number above ``newest`` that ``actor`` has never had, after reserving it on disk.

        Raises:
            DataError: if the ledger cannot be written, :data:`MOST_ACTORS` other actors have had sessions, or the
                numbers of ``actor`` have too many gaps.
        """
        with self._changed:
            if actor not in self._numbers and len(self._numbers) >= MOST_ACTORS:
                raise DataError(f"{self.path} holds sessions of {MOST_ACTORS} actors; use one of their names")
            numbers = self._numbers.get(actor, SessionNumbers())
            session = max(newest, numbers.newest) + 1
            reservation = numbers.reserve(session)
            if reservation is not None:
                self._enter({"actor": actor, "session": session, "reserved": reservation.length})
            numbers.give(session, reservation)
            self._numbers[actor] = numbers
            return session

    def newest_session(self, actor: str) -> int:
        """Return the largest number that :meth:`open_session` gave to ``actor``, also before a restart; 0: none."""
        with self._changed:
            return self._numbers.get(actor, SessionNumbers()).newest

    def has_session(self, actor: str, session: int) -> bool:
        """Return whether :meth:`open_session` gave this number to ``actor``, also before a restart."""
        with self._changed:
            return session in self._numbers.get(actor, SessionNumbers())

    def progress(self, actor: str, session: int) -> SessionProgress:
        """Return the progress of a session."""
        with self._changed:
            return self._sessions.get((actor, session), _Session()).progress()

    def blocked(self) -> str:
        """Return the reason why no steps can be received at present, or an empty string."""
        with self._changed:
            if self._fault:
                return self._fault
            if self._unstored_bytes > self._backlog_bytes:
                return "the learner's disk is slower than its actors"
            if self._fresh_bytes > self._backlog_bytes:
                return "the learner is busy"
            return ""

    def offer(self, actor: str, session: int, items: Sequence[Transition | Refusal]) -> None:
        """Receive ``items``, in order and without a gap from ``progress().wanted`` on; duplicates are ignored.

        Raises:
            DataError: if an item leaves a gap.
        """
        with self._changed:
            state = self._sessions.setdefault((actor, session), _Session())
            for item in items:
                if item.sequence < state.wanted:
                    self._duplicates += 1
                elif item.sequence > state.wanted:
                    raise DataError(
                        f"step {item.sequence} of session {session} of {actor!r} came before step {state.wanted}"
                    )
                elif isinstance(item, Refusal):
                    self._close_episode((actor, session))
                    self._queue.append(((actor, session), item))
                    self._unstored_bytes += refusal_bytes(item)
                    state.wanted += item.count
                else:
                    self._take_in((actor, session), state, item)
            self._changed.notify_all()

    def close_session(self, actor: str, session: int) -> None:
        """Store the remaining steps of a session that has ended."""
        with self._changed:
            self._close_episode((actor, session))
            self._is_urgent = True  # without delay, because the actor waits
            self._changed.notify_all()

    def _take_in(self, key: _Key, state: _Session, transition: Transition) -> None:
        last = state.open[-1] if state.open else None
        # A different object for the same observation means that the actor began a piece that can be read separately.
        if last is not None and not (transition.follows(last) and transition.observation is last.next_observation):
            self._close_episode(key)
        size = self._step_bytes + _verdict_bytes(transition)
        self._fresh_bytes += size
        self._fresh.append(transition)
        state.open.append(transition)
        state.open_bytes += size
        state.wanted += 1
        is_full = len(state.open) >= OPEN_STEPS or state.open_bytes >= OPEN_BYTES
        if transition.terminated or transition.truncated or is_full:
            self._close_episode(key)

    def _close_episode(self, key: _Key) -> None:
        state = self._sessions.get(key)
        if state is not None and state.open:
            self._unstored_bytes += state.open_bytes
            self._queue.append((key, state.open))
            state.open, state.open_bytes = [], 0

    # --- for the learner ---------------------------------------------------------------------------------------------

    def take(self) -> list[Transition]:
        """Return the steps that arrived since the last call, in order of arrival."""
        with self._changed:
            fresh = list(self._fresh)
            self._fresh.clear()
            self._fresh_bytes = 0
            return fresh

    def wait(self, timeout: float) -> None:
        """Return when :meth:`take` has steps to return, at the latest after ``timeout`` [s]."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._fresh), timeout)

    def flush(self, timeout: float) -> bool:
        """Wait until all closed episodes are on disk, at most ``timeout`` [s]; return whether they are."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queue, timeout)

    def totals(self) -> IntakeTotals:
        """Count the steps of all sessions."""
        with self._changed:
            sessions = self._sessions.values()
            return IntakeTotals(
                taken=sum(session.wanted for session in sessions),
                stored=sum(session.stored for session in sessions),
                refused=sum(session.refused for session in sessions),
                duplicates=self._duplicates,
            )

    def recover(self, ring: ReplayRing, append: Callable[[Sequence[Transition]], int] | None = None) -> int:
        """Fill ``ring`` with the newest stored episodes that fit into it; return the number of steps.

        Args:
            ring: replay buffer.
            append: stores an episode in it; None: :meth:`ReplayRing.append`.

        Raises:
            DataError: if an episode is damaged.
        """
        first, free = len(self.store), ring.capacity
        for record in reversed(self.store.records):
            free -= record.steps + 1
            if free < 0:
                break
            first -= 1
        keys = ring.spec.observation.keys()
        return sum(map(append or ring.append, self.store.episodes(first, keys=keys)))

    def close(self) -> None:
        """Store closed episodes and close the files. Open episodes stay with their actors. Call this once."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self.store.close()
        self._ledger.close()

    # --- the storing thread ------------------------------------------------------------------------------------------

    def _store_regularly(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue) or self._closing)
                if not self._queue:
                    return
                batch = _next_batch(self._queue)
                start_time = time.monotonic()
            try:
                self._store(batch)
            except Exception as error:  # also bugs: if this thread ended, actors would stop without a reason
                with self._changed:
                    self._fault = str(error) if isinstance(error, RoboRLError) else f"{type(error).__name__}: {error}"
                    if self._closing:
                        return
                    self._changed.wait_for(lambda: self._closing, RETRY_SECONDS)
                continue
            with self._changed:
                self._fault = ""
                for key, item in batch:
                    self._settle(self._sessions[key], item)
                    self._queue.popleft()
                self._is_urgent = self._is_urgent and bool(self._queue)
                self._changed.notify_all()
                remaining = COMMIT_SECONDS - (time.monotonic() - start_time)
                self._changed.wait_for(lambda: self._is_urgent or self._closing, max(remaining, 0.0))

    def _store(self, batch: "list[tuple[_Key, list[Transition] | Refusal]]") -> None:
        episodes = [item for _, item in batch if not isinstance(item, Refusal)]
        if episodes:
            self.store.append_episodes(episodes)
        else:
            self._enter(*ledger_entries((key, item) for key, item in batch if isinstance(item, Refusal)))

    def _settle(self, state: _Session, item: list[Transition] | Refusal) -> None:
        if isinstance(item, Refusal):
            state.refused += item.count
            state.settled += item.count
            self._unstored_bytes -= refusal_bytes(item)
        else:
            state.stored += len(item)
            state.settled += len(item)
            self._unstored_bytes -= len(item) * self._step_bytes + sum(map(_verdict_bytes, item))

    def _enter(self, *entries: dict[str, Any]) -> None:
        with disk_errors(self.path, "write the ledger"):
            self._ledger.append(*(json.dumps(entry).encode() for entry in entries))


def _verdict_bytes(transition: Transition) -> int:
    """Return the approximate memory of the texts of a step's verdict, which may be kilobytes [bytes]."""
    verdict = transition.verdict
    return 0 if verdict is PASSED else sum(64 + len(text) for text in (verdict.message, *verdict.reasons))


def _next_batch(
    queue: "deque[tuple[_Key, list[Transition] | Refusal]]",
) -> "list[tuple[_Key, list[Transition] | Refusal]]":
    """Return the head of the queue: all episodes before a refusal, or all refusals before an episode."""
    holds_refusals = isinstance(queue[0][1], Refusal)
    return list(itertools.takewhile(lambda each: isinstance(each[1], Refusal) == holds_refusals, queue))


def _recover_sessions(
    store: EpisodeStore, ledger: CommitLog, file: Path
) -> tuple[dict[_Key, _Session], dict[str, SessionNumbers]]:
    """Return the sessions with steps on disk, and the numbers of all sessions by actor.

    The progress of a session is its steps on disk from the first step to the first gap.
    """
    numbers: dict[str, SessionNumbers] = {}
    settled: dict[_Key, dict[int, tuple[int, bool]]] = {}
    for number, line in enumerate(ledger.lines, start=1):
        with reading(f"{file}: line {number}", advice="restore it from a copy"):
            entry = parse_json(line, str(file))
            key = str(entry["actor"]), whole_number(entry["session"])
            if "refused" in entry:
                settled.setdefault(key, {})[whole_number(entry["sequence"])] = whole_number(entry["count"], 1), False
            numbers.setdefault(key[0], SessionNumbers()).add(key[1], whole_number(entry.get("reserved", 1), 1))
    for record in store.records:
        key = record.actor, record.session
        numbers.setdefault(record.actor, SessionNumbers()).add(record.session)
        settled.setdefault(key, {})[record.sequence] = record.steps, True
    sessions = {key: _Session() for key in settled}
    for key, pieces in settled.items():
        session = sessions[key]
        while (piece := pieces.get(session.settled)) is not None:
            count, stored = piece
            session.settled += count
            if stored:
                session.stored += count
            else:
                session.refused += count
        session.wanted = session.settled
    return sessions, numbers
