"""Passkeys: the checks that py_webauthn makes, and the ones it leaves out (design 40, "Methods").

`webauthn` alone accepts `crossOrigin: true`, `topOrigin`, every COSE algorithm and changed backup
flags. Everything it raises, of whatever type, is a refusal here. The order is fixed: structure,
credential, client data, authenticator data, signature; the check that failed names itself.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import webauthn
from webauthn.helpers import decode_credential_public_key, parse_authenticator_data
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.decoded_public_key_to_cryptography import decoded_public_key_to_cryptography
from webauthn.helpers.structs import (
    AttestationConveyancePreference,
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from approvals import keys, sshsig
from approvals.encodings import b64url, unb64url
from approvals.refusals import SignatureRefused

ES256: Final = COSEAlgorithmIdentifier.ECDSA_SHA_256
TIMEOUT_MS: Final = 300_000
MAX_FIELD: Final = 16 * 1024
USER_HANDLE_CONTEXT: Final = b"countersign.user-handle.v1"


@dataclass(frozen=True)
class RelyingParty:
    """Who asks: the host name of the console and the exact origins that may answer."""

    id: str
    name: str
    origins: tuple[str, ...]


@dataclass(frozen=True)
class Credential:
    """What enrolment remembered of one passkey."""

    credential_id: bytes
    spki: bytes
    rp_id: str
    sign_count: int
    backup_eligible: bool
    user_handle: bytes


@dataclass(frozen=True)
class Enrolled:
    """What a registration proved."""

    credential_id: bytes
    spki: bytes
    sign_count: int
    backup_eligible: bool
    backed_up: bool


@dataclass(frozen=True)
class Asserted:
    """What an assertion proved: the new counter, the flags, and the same signature as SSHSIG."""

    sign_count: int
    backed_up: bool
    armor: str


def user_handle_of(user_id: object) -> bytes:
    """An opaque handle for the authenticator: it must not tell who the person is."""
    return sha256(USER_HANDLE_CONTEXT + str(user_id).encode()).digest()


def registration_options(
    party: RelyingParty,
    *,
    user_id: object,
    email: str,
    name: str,
    challenge: bytes,
    known: Sequence[bytes],
) -> dict[str, Any]:
    """Options for `parseCreationOptionsFromJSON`: ES256 only, user verification required."""
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name=party.name,
        user_id=user_handle_of(user_id),
        user_name=email,
        user_display_name=name,
        challenge=challenge,
        timeout=TIMEOUT_MS,
        attestation=AttestationConveyancePreference.NONE,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.DISCOURAGED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
        supported_pub_key_algs=[ES256],
    )
    return dict(json.loads(webauthn.options_to_json(options)))


def assertion_options(party: RelyingParty, credential_id: bytes, blob: bytes) -> dict[str, Any]:
    """Options for `parseRequestOptionsFromJSON`: this one credential, challenge = `blob`."""
    options = webauthn.generate_authentication_options(
        rp_id=party.id,
        challenge=blob,
        timeout=TIMEOUT_MS,
        allow_credentials=[PublicKeyCredentialDescriptor(id=credential_id)],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return dict(json.loads(webauthn.options_to_json(options)))


def check_registration(party: RelyingParty, credential: object, challenge: bytes) -> Enrolled:
    """Verify `navigator.credentials.create()`; raises SignatureRefused with the failed check."""
    answer, response = _parts(credential, ("clientDataJSON", "attestationObject"))
    _check_client_data(party, response["clientDataJSON"], "webauthn.create", challenge)
    try:
        seen = webauthn.verify_registration_response(
            credential=answer,
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=list(party.origins),
            require_user_verification=True,
            supported_pub_key_algs=[ES256],
        )
        cose = decode_credential_public_key(seen.credential_public_key)
        key = decoded_public_key_to_cryptography(cose)
    except Exception as error:  # the library raises many types, and all of them mean no
        raise SignatureRefused(_registration_check(error), str(error)) from error
    if cose.alg != ES256:
        raise SignatureRefused("algorithm", "only ES256 passkeys can sign decisions")
    spki = keys.spki_of(key)  # type: ignore[arg-type]
    keys.load_spki(spki)
    eligible = seen.credential_device_type == "multi_device"
    if seen.credential_backed_up and not eligible:
        raise SignatureRefused("flags", "backed up, though it says it never is")
    return Enrolled(seen.credential_id, spki, seen.sign_count, eligible, seen.credential_backed_up)


def _registration_check(error: Exception) -> str:
    text = str(error)
    if "alg" in text:
        return "algorithm"
    if "erif" in text and "user" in text.lower():
        return "flags"
    return "rp_id" if "RP ID" in text else "registration"


def check_assertion(
    party: RelyingParty, credential: object, blob: bytes, enrolled: Credential
) -> Asserted:
    """Verify `navigator.credentials.get()` against one enrolled passkey.

    The caller holds a lock on the key's row: the counter rule is worthless without one.
    """
    answer, response = _parts(credential, ("clientDataJSON", "authenticatorData", "signature"))
    if answer["rawId"] != b64url(enrolled.credential_id):
        raise SignatureRefused("credential", "another credential answered")
    handle = answer["response"].get("userHandle")
    if handle is not None and unb64url(handle) not in (b"", enrolled.user_handle):
        raise SignatureRefused("credential", "the credential belongs to another person")
    origin = _check_client_data(party, response["clientDataJSON"], "webauthn.get", blob)
    flags, count = _check_authenticator(party, response["authenticatorData"], enrolled)
    r, s = keys.split_der(response["signature"])
    signed = response["authenticatorData"] + sha256(response["clientDataJSON"]).digest()
    key = keys.load_spki(enrolled.spki)
    keys.verify_p256(key, r, s, signed)
    _library_agrees(party, answer, blob, enrolled)
    armor = sshsig.from_assertion(
        keys.sk_ecdsa(key, enrolled.rp_id),
        response["authenticatorData"],
        response["clientDataJSON"],
        response["signature"],
        origin,
    )
    return Asserted(count, bool(flags.bs), armor)


def _parts(credential: object, fields: Sequence[str]) -> tuple[dict[str, Any], Mapping[str, bytes]]:
    """The credential as a dict and its binary fields, decoded strictly."""
    if isinstance(credential, str):
        try:
            credential = json.loads(credential)
        except ValueError:
            raise SignatureRefused("encoding", "the credential is not JSON") from None
    if not isinstance(credential, dict) or not isinstance(credential.get("response"), dict):
        raise SignatureRefused("encoding", "this is no PublicKeyCredential")
    if credential.get("type") != "public-key" or credential.get("id") != credential.get("rawId"):
        raise SignatureRefused("encoding", "the credential's type or ids are not right")
    unb64url(credential["rawId"])
    response = {name: unb64url(credential["response"].get(name)) for name in fields}
    if any(len(value) > MAX_FIELD for value in response.values()):
        raise SignatureRefused("encoding", "the credential is too long")
    return credential, response


def _check_client_data(party: RelyingParty, raw: bytes, kind: str, challenge: bytes) -> str:
    """Type, challenge, origin, then the two members that the library never looks at."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        raise SignatureRefused("encoding", "clientDataJSON is not JSON") from None
    if not isinstance(data, dict):
        raise SignatureRefused("encoding", "clientDataJSON is no object")
    if data.get("type") != kind:
        raise SignatureRefused("type", f"the ceremony was {data.get('type')!r}, not {kind!r}")
    if data.get("challenge") != b64url(challenge):
        raise SignatureRefused("challenge", "another challenge was signed")
    origin = data.get("origin")
    if not isinstance(origin, str) or origin not in party.origins:
        raise SignatureRefused("origin", f"signed at {origin!r}")
    if data.get("crossOrigin", False) is not False or "topOrigin" in data:
        raise SignatureRefused("cross_origin", "signed inside another site's frame")
    return origin


def _check_authenticator(party: RelyingParty, raw: bytes, enrolled: Credential) -> tuple[Any, int]:
    try:
        data = parse_authenticator_data(raw)
    except Exception as error:
        raise SignatureRefused("encoding", f"authenticatorData: {error}") from error
    flags = data.flags
    if data.rp_id_hash != sha256(party.id.encode()).digest() or enrolled.rp_id != party.id:
        raise SignatureRefused("rp_id", "signed for another relying party")
    if not flags.up or not flags.uv:
        raise SignatureRefused("flags", "the authenticator did not verify a present person")
    if flags.at:
        raise SignatureRefused("flags", "an assertion carries no new credential")
    if (flags.bs and not flags.be) or flags.be != enrolled.backup_eligible:
        raise SignatureRefused("flags", "backup flags differ from enrolment")
    count, known = data.sign_count, enrolled.sign_count
    if (count or known) and count <= known:
        raise SignatureRefused("counter", f"the counter went from {known} to {count}")
    return flags, count


def _library_agrees(
    party: RelyingParty, answer: dict[str, Any], blob: bytes, enrolled: Credential
) -> None:
    """A second implementation reads the same bytes; whatever it raises is a refusal."""
    try:
        webauthn.verify_authentication_response(
            credential=answer,
            expected_challenge=blob,
            expected_rp_id=party.id,
            expected_origin=list(party.origins),
            credential_public_key=_cose(enrolled.spki),
            credential_current_sign_count=enrolled.sign_count,
            require_user_verification=True,
        )
    except Exception as error:
        raise SignatureRefused("webauthn", str(error)) from error


def _cose(spki: bytes) -> bytes:
    """The key as a COSE map, written by hand so that no encoder's choices matter."""
    point = keys.point_of(keys.load_spki(spki))
    return bytes.fromhex("a5010203262001215820") + point[1:33] + b"\x22\x58\x20" + point[33:]
