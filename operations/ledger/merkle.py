"""RFC 6962 Merkle trees: roots, inclusion and consistency proofs, and their verification. Pure.

`leaf = H(0x00 ‖ entry)`, `node = H(0x01 ‖ left ‖ right)`, H = SHA-256. A tree is never held whole:
what makes proofs asks a `Node` for complete subtrees, `node(level, index)` being the root over
leaves `index << level` up to the next multiple.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Final

type Node = Callable[[int, int], bytes]
type Span = tuple[int, int]

EMPTY_ROOT: Final = sha256(b"").digest()
HASH_BYTES: Final = 32


class ProofRefused(Exception):
    """A proof does not show what it is said to show; the message says why."""


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf: the zero byte keeps entries and nodes apart."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash over two subtrees."""
    return sha256(b"\x01" + left + right).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes."""
    if not leaves:
        return EMPTY_ROOT
    return CompactRange().extend(leaves).root


class CompactRange:
    """The peaks of a growing tree: what appending needs, never more than its depth.

    `peaks` holds one root for each bit that is set in `size`, the widest first. `size` and `peaks`
    continue an earlier range; ValueError where they do not fit each other.
    """

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"{len(self.peaks)} peaks do not make a tree of {size}")

    def append(self, leaf: bytes, made: Callable[[int, int, bytes], None] | None = None) -> None:
        """Add a leaf hash; `made(level, index, hash)` hears of every node that it completes."""
        index, level, size = self.size, 0, self.size
        if made is not None:
            made(0, index, leaf)
        while size & 1:
            leaf = node_hash(self.peaks.pop(), leaf)
            size >>= 1
            level += 1
            if made is not None:
                made(level, index >> level, leaf)
        self.peaks.append(leaf)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> "CompactRange":
        """Add leaf hashes."""
        for leaf in leaves:
            self.append(leaf)
        return self

    @property
    def root(self) -> bytes:
        """The root over everything appended."""
        if not self.peaks:
            return EMPTY_ROOT
        found = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            found = node_hash(peak, found)
        return found


def span_hash(span: Span, node: Node) -> bytes:
    """The root over leaves [first, end), a span that occurs in a tree or in a proof."""
    first, end = span
    if first == end:
        return EMPTY_ROOT
    width = end - first
    if width & (width - 1) == 0 and first % width == 0:
        level = width.bit_length() - 1
        return node(level, first >> level)
    middle = first + _split(width)
    return node_hash(span_hash((first, middle), node), span_hash((middle, end), node))


def inclusion_proof(index: int, size: int, node: Node) -> list[bytes]:
    """PATH(index, D[size]): siblings from the leaf upwards. ValueError outside the tree."""
    if not 0 <= index < size:
        raise ValueError(f"entry {index} is not in a tree of {size}")
    return [span_hash(span, node) for span in _path(index, 0, size)]


def consistency_proof(old: int, new: int, node: Node) -> list[bytes]:
    """PROOF(old, D[new]): what shows that the tree only grew. ValueError unless 0 < old <= new."""
    if not 0 < old <= new:
        raise ValueError(f"there is no proof from {old} to {new}")
    return [span_hash(span, node) for span in _growth(old, 0, new, whole=True)]


def _path(index: int, first: int, end: int) -> list[Span]:
    if end - first == 1:
        return []
    middle = first + _split(end - first)
    if index < middle:
        return [*_path(index, first, middle), (middle, end)]
    return [*_path(index, middle, end), (first, middle)]


def _growth(old: int, first: int, end: int, *, whole: bool) -> list[Span]:
    if old == end:
        return [] if whole else [(first, end)]
    middle = first + _split(end - first)
    if old <= middle:
        return [*_growth(old, first, middle, whole=whole), (middle, end)]
    return [*_growth(old, middle, end, whole=False), (first, middle)]


def _split(width: int) -> int:
    """The largest power of two below a width above 1."""
    return 1 << ((width - 1).bit_length() - 1)


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Raise unless `leaf` stands at `index` of the tree of `size` with this root (RFC 9162)."""
    _check_hashes([leaf, root, *proof])
    if not 0 <= index < size:
        raise ProofRefused(f"entry {index} is not in a tree of {size}")
    place, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ProofRefused("the proof is too long")
        if place & 1 or place == last:
            found = node_hash(sibling, found)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    if last:
        raise ProofRefused("the proof is too short")
    if found != root:
        raise ProofRefused("the proof leads to another root")


def verify_consistency(
    old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Raise unless the tree of `new` begins with the tree of `old`; from 0 nothing can be shown."""
    if old <= 0 or new < old:
        raise ProofRefused(f"a tree of {new} cannot be shown to continue one of {old}")
    if old == new:
        if proof:
            raise ProofRefused("equal sizes need no proof")
        if old_root != new_root:
            raise ProofRefused("one size has two roots")
        return
    _check_hashes([old_root, new_root, *proof])
    if not proof:
        raise ProofRefused("the proof is empty")
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    before, after = _fold(old - 1, new - 1, path)
    if before != old_root:
        raise ProofRefused("the proof does not lead to the older root")
    if after != new_root:
        raise ProofRefused("the proof does not lead to the newer root")


def _fold(place: int, last: int, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Both roots that a consistency path leads to."""
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise ProofRefused("the proof is too long")
        if place & 1 or place == last:
            before, after = node_hash(sibling, before), node_hash(sibling, after)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, sibling)
        place, last = place >> 1, last >> 1
    if last:
        raise ProofRefused("the proof is too short")
    return before, after


def _check_hashes(hashes: Iterable[bytes]) -> None:
    if any(len(one) != HASH_BYTES for one in hashes):
        raise ProofRefused("a hash is not 32 bytes long")
