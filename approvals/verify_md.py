"""The words of a bundle's VERIFY.md: how to check it with stock tools."""

from typing import Final

VERIFY_MD: Final = """# How to check this bundle

Trust comes from you: keep a `trust.json` (`manage.py export_trust`) that you got by another way
than this bundle. Everything at once, offline, with one file that needs only `cryptography`:

    python countersign_verify.py bundle.zip --trust trust.json

It exits 0 if every check passed, 1 if one failed, 2 if something could not be checked, 3 if this
is no bundle. The same by hand, with stock tools, after `unzip bundle.zip`:

**The arguments are those that were approved.** The digest is the one in `request.json` after
`jcs-sha256:`, and the subject of each signed statement.

    sha256sum args.json

**What was shown is what was signed.** The digest is `display.sha256` in each statement, and that
of `request.json` is `request.sha256`.

    sha256sum display.txt request.json

**Each reviewer signed** (SSH keys and passkeys). Write the reviewer's `allowed_signers` line of
your `trust.json` into a file of that name; `NAME` is its first word.

    ssh-keygen -Y verify -f allowed_signers -I NAME -n decision.v1@countersign \\
        -s decisions/1.sshsig < decisions/1.message

`decisions/1.message` is the DSSE pre-authentication encoding of the statement in
`decisions/1.envelope.json`. A key made in a browser signs the message itself, as r and s of 32
bytes each.

**The decision id** in the log and in the grant is the digest of the message:

    sha256sum decisions/1.message

**An entry's leaf hash**, which the proofs and the next entry's `prev` name:

    (printf '\\000'; cat entries/N.json) | sha256sum

**The checkpoint is the log's.** The text up to the empty line is signed with Ed25519. The
signature is the last word of the last line, without its first four bytes; the key is the last part
of the `vkeys` entry of your `trust.json`, without its first byte.

    sed '/^$/,$d' checkpoint.txt > signed.txt
    tail -n1 checkpoint.txt | awk '{print $3}' | base64 -d | tail -c +5 > signature.bin
    (printf '\\060\\052\\060\\005\\006\\003\\053\\145\\160\\003\\041\\000'; \\
        echo KEY | base64 -d | tail -c +2) > key.der
    openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin \\
        -in signed.txt -sigfile signature.bin

What no check without the console shows: that a grant was used only once, and what was revoked
since your `trust.json` was written.
"""
