"""An interface that an account has to describe: orders by reference, in pages."""

import uuid
from typing import Any

from tests.support.rest_server import Asked, RestServer, Told


class OrdersServer(RestServer):
    """Orders, newest first. `hidden` ids are in no list; `page_size` makes pages."""

    def __init__(self) -> None:
        super().__init__()
        self.token = f"token-{uuid.uuid4().hex}"
        self.account = "merchant-7"
        self.page_size = 100
        self.hidden: set[str] = set()
        self.orders: list[dict[str, Any]] = []
        self.next_elsewhere = ""
        self.redirects_to = ""

    def order(self, reference: str, **changes: Any) -> dict[str, Any]:
        order = {
            "id": f"ord_{uuid.uuid4().hex[:12]}",
            "reference": reference,
            "state": "paid",
            "total": "25.00",
            "currency": "eur",
            "created": "2026-02-14T11:12:54Z",
            "livemode": False,
        } | changes
        self.orders.insert(0, order)
        return order

    def refusal(self, fault: str) -> Told:
        told = super().refusal(fault)
        told.body = {"message": f"no, {self.token}"}
        return told

    def answer(self, asked: Asked) -> Told:
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return self.refusal("refused")
        if self.redirects_to:
            return Told(302, {}, {"Location": self.redirects_to})
        if asked.path == "/me":
            return Told(200, {"id": self.account})
        if asked.path.startswith("/orders/"):
            found = [o for o in self.orders if o["id"] == asked.path.removeprefix("/orders/")]
            return Told(200, found[0]) if found else Told(404, {"message": "no such order"})
        if asked.path.startswith("/by-reference/"):
            reference = asked.path.removeprefix("/by-reference/")
            found = [o for o in self.orders if o["reference"] == reference]
            return Told(200, found[0]) if found else Told(404, {"message": "no such order"})
        return self._listed(asked)

    def _listed(self, asked: Asked) -> Told:
        shown = [o for o in self.orders if o["id"] not in self.hidden]
        # Its own comparison does not mind the case.
        wanted = asked.query.get("reference", "").lower()
        shown = [o for o in shown if not wanted or o["reference"].lower() == wanted]
        begin = int(asked.query.get("from", "0"))
        page = shown[begin : begin + self.page_size]
        more = begin + self.page_size < len(shown)
        path = f"/orders?reference={asked.query.get('reference', '')}&from={begin + self.page_size}"
        return Told(200, {"data": page, "next": (self.next_elsewhere or path) if more else None})
