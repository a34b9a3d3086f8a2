"""TCP ports: a free one for a service, and the console's own socket."""

import errno
import socket


class PortTaken(Exception):
    """Somebody else listens on the port."""


def free_port(preferred: int = 0) -> int:
    """A port on the loopback address that nobody listens on; the preferred one if it is free."""
    for port in (preferred, 0) if preferred else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise PortTaken("no free port on 127.0.0.1")


def console_socket(host: str, port: int) -> socket.socket:
    """Claim the console's port (0: any free one), without listening on it yet.

    The supervisor holds it, so a web process that is killed and restarted finds its queue of
    connections as it was: clients wait a moment instead of being refused.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    claimed = socket.socket(family, socket.SOCK_STREAM)
    claimed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        claimed.bind((host, port))
    except OSError as error:
        claimed.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {port} is taken; stop what listens there or choose another: "
                f"make run PORT={port + 1}"
            ) from None
        raise
    claimed.set_inheritable(True)
    return claimed
