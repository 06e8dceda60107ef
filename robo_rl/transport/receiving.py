"""Path of received steps from the records of exchanges to the learner's inbox."""

from collections.abc import Callable, Collection
from typing import Any

from robo_rl.core import EnvSpec, Refusal, TransitionInbox

from .codec import RecordDecoder
from .leases import Leases
from .received import ReceivedRecord

MOST_OPEN = 8
"""Largest number of sessions of an actor that stay open when it begins another one. It sends their steps one session
after another.
"""


class StepReceiver:
    """Decoder of the records of all sessions, each in order, which also counts lost records.

    Args:
        spec: spec of the environment.
        inbox: inbox that receives the steps.
        leases: leases of the actors.
        count: called with the number of steps that were taken in.
    """

    def __init__(self, spec: EnvSpec, inbox: TransitionInbox, leases: Leases, count: Callable[[int], None]) -> None:
        self._spec = spec
        self._inbox = inbox
        self._leases = leases
        self._count = count
        self._decoders: dict[tuple[str, int], RecordDecoder] = {}

    def open_session(self, actor: str, newest: int, held: Collection[int]) -> int:
        """Open a session and return its number. Older sessions end, except those whose steps the actor still holds.

        Args:
            actor: name of the actor.
            newest: largest session number that the actor knows.
            held: numbers of the sessions whose steps the actor holds.
        """
        session = self._inbox.open_session(actor, newest)
        self.end_sessions(actor, held)
        return session

    def end_sessions(self, actor: str, held: Collection[int] = ()) -> None:
        """Close all sessions of an actor except the newest :data:`MOST_OPEN` with numbers in ``held``."""
        numbers = [number for name, number in list(self._decoders) if name == actor]
        kept = [number for number in numbers if number in held][-MOST_OPEN:]
        for number in numbers:
            if number not in kept:
                self.end_session(actor, number)

    def end_session(self, actor: str, session: int) -> None:
        """Close a session that sends no more steps."""
        self._decoders.pop((actor, session), None)
        self._inbox.close_session(actor, session)
        lease = self._leases.get(actor)
        if lease is not None and lease.session == session:
            lease.left = True

    def take_in(self, key: tuple[str, int], request: Any, records: list[ReceivedRecord]) -> None:
        """Offer the steps of an ``ExchangeRequest`` to the inbox; ``key`` is the actor and session of the steps."""
        wanted = self._inbox.progress(*key).wanted
        if wanted < request.first_available:
            loss = Refusal(wanted, request.first_available - wanted, "lost: the actor's spool no longer holds it")
            self._decoders.pop(key, None)
            self._inbox.offer(*key, [loss])
            wanted = request.first_available
        new_records = [record for record in records if record.message.sequence >= wanted]
        # Records that begin after the wanted step are dropped: the reply tells the actor where to continue.
        if new_records and new_records[0].message.sequence == wanted:
            decoder = self._decoders.setdefault(key, RecordDecoder(self._spec, *key))
            self._inbox.offer(*key, decoder.decode(new_records))
            self._count(len(new_records))
            wanted = new_records[-1].message.sequence + 1
        if request.session_ended and (not records or wanted > records[-1].message.sequence):
            self.end_session(*key)
