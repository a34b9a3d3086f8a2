"""A health check from inside a container: `python -m console.probe /readyz`.

It asks as the proxy would, by the name in COUNTERSIGN_ORIGIN: other names are refused.
"""

import http.client
import os
import sys
from urllib.parse import urlsplit


def main() -> int:
    """Exit 0 when the page answers 200; print what it says otherwise."""
    path = sys.argv[1] if len(sys.argv) > 1 else "/healthz"
    port = int(os.environ.get("PORT") or 8000)
    host = urlsplit(os.environ.get("COUNTERSIGN_ORIGIN", "")).netloc or "localhost"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        body = answer.read(2000).decode(errors="replace")
    except OSError as error:
        print(f"no answer on port {port}: {error}", file=sys.stderr)
        return 1
    if answer.status != http.HTTPStatus.OK:
        print(f"{answer.status} {body}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
