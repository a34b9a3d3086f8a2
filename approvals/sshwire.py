"""The SSH wire format (RFC 4251): length-prefixed strings and mpints, read with bounds."""

from approvals.refusals import SignatureRefused

MAX_STRING = 64 * 1024


def string(data: bytes | str) -> bytes:
    """`uint32 length ‖ bytes`."""
    raw = data.encode() if isinstance(data, str) else data
    return len(raw).to_bytes(4, "big") + raw


def mpint(number: int) -> bytes:
    """A positive integer in the shortest two's complement form."""
    return string(number.to_bytes(number.bit_length() // 8 + 1, "big"))


class Reader:
    """Takes fields off the front; anything short, long or left over is `encoding`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) != count:
            raise SignatureRefused("encoding", "the SSH blob is cut short")
        self._at += count
        return piece

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def byte(self) -> int:
        return self.take(1)[0]

    def string(self) -> bytes:
        length = self.uint32()
        if length > MAX_STRING:
            raise SignatureRefused("encoding", f"an SSH string of {length} bytes is too long")
        return self.take(length)

    def text(self) -> str:
        try:
            return self.string().decode("utf-8")
        except UnicodeDecodeError:
            raise SignatureRefused("encoding", "an SSH string is not UTF-8") from None

    def mpint(self) -> int:
        raw = self.string()
        number = int.from_bytes(raw, "big", signed=True)
        if number <= 0 or mpint(number) != string(raw):
            raise SignatureRefused("encoding", "an SSH integer is not positive and minimal")
        return number

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        if self._at != len(self._data):
            raise SignatureRefused("encoding", "bytes are left over after the SSH blob")
