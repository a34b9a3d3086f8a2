"""RFC 6962: the published vectors of transparency-dev, and roots and proofs that Go computed."""

import base64
import json
from functools import cache
from pathlib import Path

import pytest

from operations.ledger import merkle
from operations.ledger.merkle import ProofRefused


def unb64(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def cases(vectors: Path, kind: str) -> list[tuple[str, dict]]:
    files = sorted((vectors / "rfc6962-merkle" / "testdata" / kind).rglob("*.json"))
    return [
        (str(path.parent.name) + "/" + path.stem, json.loads(path.read_text())) for path in files
    ]


def test_inclusion_proofs_are_judged_as_published(vectors: Path) -> None:
    found = cases(vectors, "inclusion")
    assert len(found) > 80
    for name, case in found:
        refused = False
        try:
            merkle.verify_inclusion(
                unb64(case["leafHash"]), case["leafIdx"], case["treeSize"],
                [unb64(one) for one in case["proof"] or []], unb64(case["root"]),
            )  # fmt: skip
        except ProofRefused:
            refused = True
        assert refused is case["wantErr"], name
    assert any(not case["wantErr"] for _, case in found)


def test_consistency_proofs_are_judged_as_published(vectors: Path) -> None:
    found = cases(vectors, "consistency")
    assert len(found) > 80
    for name, case in found:
        refused = False
        try:
            merkle.verify_consistency(
                case["size1"], case["size2"], unb64(case["root1"]), unb64(case["root2"]),
                [unb64(one) for one in case["proof"] or []],
            )  # fmt: skip
        except ProofRefused:
            refused = True
        assert refused is case["wantErr"], name
    assert any(not case["wantErr"] for _, case in found)


def go(vectors: Path) -> dict:
    return json.loads((vectors / "sumdb-tlog" / "tlog-vectors.json").read_text())


def stored(leaves: list[bytes]) -> merkle.Node:
    """Complete subtrees, recorded as an append makes them."""
    nodes: dict[tuple[int, int], bytes] = {}
    growing = merkle.CompactRange()
    for leaf in leaves:
        growing.append(leaf, lambda level, index, found: nodes.__setitem__((level, index), found))
    return lambda level, index: nodes[level, index]


def test_roots_are_those_of_go(vectors: Path) -> None:
    said = go(vectors)
    leaves = [merkle.leaf_hash(b"leaf %d" % n) for n in range(len(said["leaf_hashes"]))]
    assert leaves == [unb64(one) for one in said["leaf_hashes"]]
    for size, root in enumerate(said["roots"], start=1):
        assert merkle.root_of(leaves[:size]) == unb64(root)


def test_proofs_are_those_of_go_and_verify(vectors: Path) -> None:
    said = go(vectors)

    @cache
    def tree(size: int) -> tuple[list[bytes], merkle.Node]:
        leaves = [merkle.leaf_hash(b"leaf %d" % n) for n in range(size)]
        return leaves, stored(leaves)

    assert len(said["inclusion"]) >= 300
    assert len(said["consistency"]) >= 300
    for case in said["inclusion"]:
        leaves, node = tree(case["Size"])
        proof = merkle.inclusion_proof(case["Index"], case["Size"], node)
        assert proof == [unb64(one) for one in case["Proof"] or []]
        leaf = leaves[case["Index"]]
        merkle.verify_inclusion(leaf, case["Index"], case["Size"], proof, merkle.root_of(leaves))
    for case in said["consistency"]:
        leaves, node = tree(case["Size2"])
        proof = merkle.consistency_proof(case["Size1"], case["Size2"], node)
        assert proof == [unb64(one) for one in case["Proof"] or []]
        roots = unb64(case["Root1"]), unb64(case["Root2"])
        merkle.verify_consistency(case["Size1"], case["Size2"], *roots, proof)
        assert merkle.root_of(leaves[: case["Size1"]]) == roots[0]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 255, 256, 257, 600])
def test_no_proof_verifies_elsewhere(size: int) -> None:
    """N71 and N72, with their twins: too long, too short, another index, another size or root."""
    leaves = [merkle.leaf_hash(b"%d" % n) for n in range(size)]
    node, root = stored(leaves), merkle.root_of(leaves)
    for index in {0, size // 2, size - 1}:
        proof = merkle.inclusion_proof(index, size, node)
        merkle.verify_inclusion(leaves[index], index, size, proof, root)
        wrong = [
            (index, size, [*proof, root]), ((index + 1) % size, size, proof), (index, 0, proof),
            (size, size, proof),
        ]  # fmt: skip
        wrong += [(index, size, proof[:-1]), (index, size, [])] if proof else []
        for place, width, shown in wrong:
            if (place, width, shown) == (index, size, proof):
                continue
            with pytest.raises(ProofRefused):
                merkle.verify_inclusion(leaves[index], place, width, shown, root)
    for old in {1, size // 2 or 1, size}:
        proof = merkle.consistency_proof(old, size, node)
        before = merkle.root_of(leaves[:old])
        merkle.verify_consistency(old, size, before, root, proof)
        for first, shown, start in [(0, proof, before), (old, [*proof, root], before),
                                    (old, proof, b"\x00" * 32)]:  # fmt: skip
            with pytest.raises(ProofRefused):
                merkle.verify_consistency(first, size, start, root, shown)
