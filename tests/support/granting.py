"""Grants in tests: an approved call, its claim, its grant, its consumption."""

from collections.abc import Callable
from typing import Any

import pytest

from approvals import admission, decisions, grants, reading
from approvals.errors import Refused
from tests.support import approving, sealing


def approved(**changes: Any) -> approving.Asked:
    asked = approving.ask(**changes)
    approve(asked, approving.person())
    return asked


def approve(asked: approving.Asked, who: approving.Person, verdict: str = "approve") -> Any:
    ceremony = decisions.start(who.user, who.session, asked.id, verdict, key=who.key)
    decided = decisions.finish(
        who.user, who.session, ceremony.statement_id, who.sign(ceremony), approval_id=asked.id
    )
    sealing.seal()
    return decided


def claim(asked: approving.Asked, **changes: Any) -> Any:
    from dataclasses import replace

    return admission.admit(replace(asked.request, **changes), asked.runtime)


def mint(asked: approving.Asked, claim_id: str = "c1", who: Any = None) -> dict[str, Any]:
    return grants.mint(who or asked.runtime, asked.id, claim_id)


def consume(
    asked: approving.Asked, granted: dict[str, Any], claim_id: str = "c1", **changes: Any
) -> dict[str, Any]:
    said = {"args_fingerprint": granted["args_fingerprint"], "runtime": asked.runtime} | changes
    return grants.consume(said["runtime"], granted["jti"], claim_id, said["args_fingerprint"])


def refused(code: str, status: int, work: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as error:
        work()
    assert (error.value.code, error.value.status) == (code, status), error.value
    return error.value


def used(asked: approving.Asked) -> bool:
    document = reading.read_approval(asked.runtime.scope, asked.id)
    assert document is not None
    return bool(document["used"])
