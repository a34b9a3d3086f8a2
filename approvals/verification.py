"""Check an envelope against keys one trusts, believing nothing else. Numbered, fails closed.

The server runs it before every grant, over what its own tables hold: a row that somebody wrote by
hand approves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from approvals import envelopes, keys, sshsig, statements, webcrypto
from approvals.models import Decision, ReviewerKey
from approvals.models.people import CUSTODY
from approvals.refusals import SignatureRefused


@dataclass(frozen=True)
class TrustedKey:
    """One public key, how it signs, and whose it is (`user:<id>`)."""

    key_id: str
    method: str
    spki: bytes
    ssh_public_key: str
    person: str


def trusted(key: ReviewerKey) -> TrustedKey:
    return TrustedKey(
        key.key_id, key.method, bytes(key.spki), key.ssh_public_key, f"user:{key.user_id}"
    )


def verify_envelope(
    envelope: object, predicate_type: str, trust: Mapping[str, TrustedKey]
) -> dict[str, Any]:
    """The statement inside, or SignatureRefused.

    1 envelope shape and type, 2 canonical, closed statement of this type, 3 the key is trusted,
    4 the statement names this key and its owner, 5 its method, 6 the signature over the PAE,
    7 no more custody is claimed than the method gives.
    """
    payload, key_id, signature = envelopes.unseal(envelope)
    statement = statements.parse(payload, predicate_type)
    key = trust.get(key_id)
    if key is None:
        raise SignatureRefused("key.untrusted", f"nobody trusts the key {key_id}")
    if key.key_id != keys.key_id_of(keys.load_spki(key.spki)):
        raise SignatureRefused("key.untrusted", "the trusted key does not have the id it claims")
    reviewer = statement["predicate"]["reviewer"]
    if reviewer["key_id"] != key.key_id or reviewer["id"] != key.person:
        raise SignatureRefused("reviewer.mismatch", "the statement names another reviewer or key")
    if reviewer["method"] != key.method:
        raise SignatureRefused("method", f"the key signs by {key.method}")
    _verify_signature(key, envelopes.pae(payload), signature)
    if reviewer["custody"] != CUSTODY[key.method]:
        raise SignatureRefused("assurance", "the custody is not what the method gives")
    return statement


def _verify_signature(key: TrustedKey, message: bytes, signature: bytes) -> None:
    if key.method == "webcrypto":
        webcrypto.verify(webcrypto.load_public_key(key.spki), message, signature)
        return
    is_passkey = key.method == "webauthn"
    trusted_key = keys.parse_line(key.ssh_public_key)
    if keys.key_id_of(trusted_key.key) != key.key_id:
        raise SignatureRefused("key.untrusted", "the SSH form is of another key")
    armor = sshsig.armor(signature)
    sshsig.verify(armor, message, trusted_key, need_uv=is_passkey, is_passkey=is_passkey)


def check_decision(decision: Decision, args_sha256: str) -> None:
    """Raise unless a stored decision is a signed yes to its request about these args."""
    key = trusted(decision.key)
    statement = verify_envelope(decision.envelope, statements.DECISION, {key.key_id: key})
    predicate = statement["predicate"]
    if key.person != f"user:{decision.user_id}":
        raise SignatureRefused("reviewer.mismatch", "the key belongs to another person")
    if predicate["request"]["sha256"] != decision.request.sha256:
        raise SignatureRefused("request.mismatch", "it was signed for another request")
    if predicate["decision"] != decision.verdict:
        raise SignatureRefused("statement.verdict", "the signed verdict is another one")
    if statement["subject"][0]["digest"]["sha256"] != args_sha256:
        raise SignatureRefused("fingerprint.mismatch", "it was signed for other arguments")
