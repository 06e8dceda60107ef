"""The steps that come to a learner, from the records of exchanges into its inbox."""

from collections.abc import Callable, Collection
from typing import Any

from robo_rl.core import EnvSpec, Refusal, TransitionInbox

from .codec import RecordDecoder
from .leases import Leases
from .received import ReceivedRecord


class StepReceiver:
    """Decodes the records of each session in their order, and counts those that are lost.

    Args:
        spec: of the environment.
        inbox: where steps go.
        leases: of the actors.
        count: given how many steps came in.
    """

    def __init__(self, spec: EnvSpec, inbox: TransitionInbox, leases: Leases, count: Callable[[int], None]) -> None:
        self._spec = spec
        self._inbox = inbox
        self._leases = leases
        self._count = count
        self._decoders: dict[tuple[str, int], RecordDecoder] = {}

    def open_session(self, actor: str, newest: int, held: Collection[int]) -> int:
        """Return the number of a new session; older ones end, but for those of which the actor holds steps.

        Args:
            actor: its name.
            newest: largest session number that it knows.
            held: numbers of the sessions of which it holds steps.
        """
        session = self._inbox.open_session(actor, newest)
        for old in [old for name, old in list(self._decoders) if name == actor and old not in held]:
            self.end_session(actor, old)
        return session

    def end_session(self, actor: str, session: int) -> None:
        """Take note that no more steps of a session come."""
        self._decoders.pop((actor, session), None)
        self._inbox.close_session(actor, session)
        lease = self._leases.get(actor)
        if lease is not None and lease.session == session:
            lease.left = True

    def take_in(self, key: tuple[str, int], request: Any, records: list[ReceivedRecord]) -> None:
        """Offer the inbox the steps of an ``ExchangeRequest``, for actor and session ``key``."""
        wanted = self._inbox.progress(*key).wanted
        if wanted < request.first_available:
            lost = Refusal(wanted, request.first_available - wanted, "lost: the actor's spool no longer holds it")
            self._decoders.pop(key, None)
            self._inbox.offer(*key, [lost])
            wanted = request.first_available
        fresh = [record for record in records if record.message.sequence >= wanted]
        # Records that begin later than wanted are left: the reply says from where to send.
        if fresh and fresh[0].message.sequence == wanted:
            decoder = self._decoders.setdefault(key, RecordDecoder(self._spec, *key))
            self._inbox.offer(*key, decoder.decode(fresh))
            self._count(len(fresh))
            wanted = fresh[-1].message.sequence + 1
        if request.session_ended and (not records or wanted > records[-1].message.sequence):
            self.end_session(*key)
