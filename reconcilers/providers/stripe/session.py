"""One account's session: who it is, checked first, and its questions, each answered once."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from reconcilers.providers.base import (
    AccountAccess,
    Answer,
    Deliver,
    Gate,
    Identity,
    KnownObject,
    ProviderError,
    Question,
    Session,
)
from reconcilers.providers.stripe.reader import Missing, Reader
from reconcilers.providers.stripe.refusals import could_not
from reconcilers.providers.stripe.work import Asking, Work


class StripeSession(Session):
    """Reads with one key. Every question is answered once, whatever fails."""

    def __init__(self, access: AccountAccess, gate: Gate, *, concurrency: int) -> None:
        self._expected = access.external_id
        self._connected = str(access.config.get("connected_account") or "")
        # Its tools put our key into the transfer group as well.
        self._grouped = access.config.get("transfer_group") == "idem_key"
        self._reader = Reader(access, gate, concurrency=concurrency)
        self._slots = asyncio.Semaphore(concurrency)
        self._identity: Identity | None = None

    async def identify(self) -> Identity:
        """The account behind the key, asked once; its mode is the key's own prefix."""
        if self._identity is None:
            try:
                page = await self._reader.get("account", {}, endpoint="account")
            except Missing:
                raise ProviderError("404, the account cannot be read", status=404) from None
            account_id = page.body.get("id")
            if not isinstance(account_id, str) or not account_id:
                raise ProviderError("the account's answer names no account")
            self._identity = Identity(account_id=account_id, mode=self._reader.mode)
        return self._identity

    async def close(self) -> None:
        """Close the connections."""
        await self._reader.close()

    async def ask(
        self, questions: Iterable[Question], known: Mapping[str, KnownObject], deliver: Deliver
    ) -> None:
        """Look for all of them; the account's identity is checked before anything counts."""
        asked = list(questions)
        try:
            seen, note = await self._check_identity()
        except ProviderError as problem:
            await self._refuse(asked, problem, deliver)
            return
        asking = Asking(
            reader=self._reader,
            slots=self._slots,
            account_seen=seen,
            account_unknown=note,
            known=known,
            grouped=self._grouped,
        )
        await Work(asking, deliver).run(asked)

    async def _check_identity(self) -> tuple[str, str]:
        """(account id, why it is not known); raises where it is known to be another's."""
        try:
            identity = await self.identify()
        except ProviderError as problem:
            if problem.status != 403:
                raise
            # A restricted key need not read the account; a known object may stand in for it.
            return "", str(problem)
        expected = self._connected or self._expected
        if expected and identity.account_id != expected:
            raise ProviderError(
                f"the key opens {identity.account_id}, and this account is {expected}",
                permanent=True,
            )
        return identity.account_id, ""

    async def _refuse(
        self, questions: Sequence[Question], problem: ProviderError, deliver: Deliver
    ) -> None:
        for question in questions:
            look = could_not(self._reader, question, problem)
            await deliver(Answer(operation_id=question.operation_id, looks=(look,)))
