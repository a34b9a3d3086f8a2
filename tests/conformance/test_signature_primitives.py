"""Our verify functions against Wycheproof (C2SP) and the DSSE protocol's own vector."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from approvals import envelopes, keys, webcrypto
from approvals.encodings import unb64
from approvals.refusals import SignatureRefused


def cases(vectors: Path, name: str) -> Iterator[tuple[keys.PublicKey, dict[str, Any]]]:
    suite = json.loads((vectors / "wycheproof" / "testvectors_v1" / f"{name}.json").read_text())
    for group in suite["testGroups"]:
        key = keys.load_spki(bytes.fromhex(group["publicKeyDer"]))
        for case in group["tests"]:
            yield key, case


def disagreements(
    vectors: Path, name: str, verify: Callable[[keys.PublicKey, bytes, bytes], None]
) -> list[str]:
    wrong, seen = [], 0
    for key, case in cases(vectors, name):
        seen += 1
        try:
            verify(key, bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"]))
            accepted = True
        except SignatureRefused:
            accepted = False
        if accepted != (case["result"] == "valid"):
            wrong.append(f"{case['tcId']} {case['comment']}: {case['result']}")
    assert seen > 100
    return wrong


def test_webcrypto_signatures_are_judged_as_wycheproof_says(vectors: Path) -> None:
    name = "ecdsa_secp256r1_sha256_p1363_test"
    assert disagreements(vectors, name, webcrypto.verify) == []


def test_passkey_signatures_are_judged_as_wycheproof_says(vectors: Path) -> None:
    def verify(key: keys.PublicKey, message: bytes, signature: bytes) -> None:
        r, s = keys.split_der(signature)
        keys.verify_p256(key, r, s, message)

    assert disagreements(vectors, "ecdsa_secp256r1_sha256_test", verify) == []


def test_ssh_signatures_are_judged_as_wycheproof_says(vectors: Path) -> None:
    def verify(key: keys.PublicKey, message: bytes, signature: bytes) -> None:
        keys.verify_ed25519(key, signature, message)

    assert disagreements(vectors, "ed25519_test", verify) == []


def test_the_envelope_encoding_is_the_protocols(vectors: Path) -> None:
    vector = json.loads((vectors / "dsse" / "dsse-protocol-vector.json").read_text())
    message = envelopes.pae(vector["payload_utf8"].encode(), vector["payloadType"])
    assert message == vector["pae_utf8"].encode()

    numbers = ec.EllipticCurvePublicNumbers(
        int(vector["key"]["x"]), int(vector["key"]["y"]), ec.SECP256R1()
    )
    signature = unb64(vector["envelope"]["signatures"][0]["sig"])
    webcrypto.verify(numbers.public_key(), message, signature)
