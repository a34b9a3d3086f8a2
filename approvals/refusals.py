"""A signature, a statement or an envelope that does not hold. Pure; no Django.

`check` is the stable code of the check that failed (`challenge`, `origin`, `flags`,
`signature.invalid` …): it goes into the audit trail and into the answer. The message says what
was seen, for the person at the other end.
"""


class SignatureRefused(Exception):
    """One numbered check failed; nothing after it was looked at."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check
