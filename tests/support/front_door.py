"""The API's own gateway on a real port, in this process: for what others deliver to it by HTTP."""

import threading
import time

import uvicorn

from console.api.addresses import ROUTES
from console.api.gateway import Gateway
from console.api.process import Process
from console.api.routes import Table


class FrontDoor:
    """Serves the API on a free port of the loopback address until `close()`."""

    def __init__(self) -> None:
        gateway = Gateway(_no_pages, Table(ROUTES), Process())
        config = uvicorn.Config(
            gateway, host="127.0.0.1", port=0, log_config=None, access_log=False, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            assert time.monotonic() < deadline, "the gateway did not start"
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=10)
        assert not self._thread.is_alive()


async def _no_pages(scope, receive, send) -> None:
    raise AssertionError(f"no page is asked for here: {scope['path']}")
