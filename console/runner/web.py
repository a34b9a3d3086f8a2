"""One web process, on a socket that the supervisor holds.

Production runs ``uvicorn console.asgi:application`` itself; this is the same server on a socket
that outlives it.
"""

import argparse
import os
import socket

import uvicorn


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m console.runner.web")
    parser.add_argument("--fd", type=int, required=True, help="a bound TCP socket")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    # Not uvicorn's own --fd, which takes the socket for a Unix one and so never sets TCP_NODELAY.
    with socket.socket(fileno=arguments.fd) as listener:
        config = uvicorn.Config(
            "console.asgi:application",
            log_config=None,
            access_log=False,
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            # Open event streams never end by themselves.
            timeout_graceful_shutdown=3,
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
