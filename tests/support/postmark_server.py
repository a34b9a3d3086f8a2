"""A Postmark of our own: its log may lag and go back and forth, and it forgets."""

import time
import uuid
from typing import Any

from tests.support.rest_server import Asked, RestServer, Told


class PostmarkServer(RestServer):
    """One server and its outbound mail. `lag_seconds` is how far the search is behind."""

    def __init__(self) -> None:
        super().__init__()
        self.token = f"token-{uuid.uuid4().hex}"
        self.server_id = 23
        self.delivery_type = "Sandbox"
        self.lag_seconds = 0.0
        self.brief_hits = False
        self.ignores_filters = False
        self.messages: list[dict[str, Any]] = []
        self._logged_at: dict[str, float] = {}

    def send(self, metadata: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
        message: dict[str, Any] = {
            "MessageID": str(uuid.uuid4()),
            "MessageStream": "outbound",
            "Tag": "",
            "Recipients": ["jo@example.com"],
            "From": "shop@example.com",
            "Subject": "Your order",
            "ReceivedAt": "2026-02-14T11:12:54.8054242-05:00",
            "Status": "Sent",
            "MessageEvents": [],
            "Metadata": metadata or {},
            "Sandboxed": self.delivery_type == "Sandbox",
        }
        message |= changes
        self.messages.append(message)
        self._logged_at[message["MessageID"]] = time.time() + self.lag_seconds
        return message

    def refusal(self, fault: str) -> Told:
        told = super().refusal(fault)
        codes = {"refused": 10, "throttled": 429}
        told.body = {"ErrorCode": codes.get(fault, 0), "Message": f"no, {self.token}"}
        return told

    def answer(self, asked: Asked) -> Told:
        if asked.headers.get("x-postmark-server-token") != self.token:
            return self.refusal("refused")
        if asked.path == "/server":
            body = {"ID": self.server_id, "Name": "Shop", "DeliveryType": self.delivery_type}
            return Told(200, body)
        if asked.path == "/messages/outbound":
            return self._search(asked.query)
        message_id = asked.path.removeprefix("/messages/outbound/").removesuffix("/details")
        for message in self.messages:
            if message["MessageID"] == message_id:
                return Told(200, message)
        return Told(422, {"ErrorCode": 701, "Message": "This message was not found."})

    def _search(self, query: dict[str, str]) -> Told:
        shown = [m for m in reversed(self.messages) if self._matches(m, query)]
        begin, size = int(query["offset"]), int(query["count"])
        page = [dict(message) for message in shown[begin : begin + size]]
        for hit in page:
            del hit["MessageEvents"]
            if self.brief_hits:
                del hit["Metadata"]
        return Told(200, {"TotalCount": len(shown), "Messages": page})

    def _matches(self, message: dict[str, Any], query: dict[str, str]) -> bool:
        if self._logged_at[message["MessageID"]] > time.time():
            return False
        if message["MessageStream"] != query.get("messagestream", "outbound"):
            return False
        if self.ignores_filters:
            return True
        for name, wanted in query.items():
            found = message["Metadata"].get(name.removeprefix("metadata_"), "")
            # The log's own comparison does not mind the case.
            if name.startswith("metadata_") and found.lower() != wanted.lower():
                return False
            if name == "tag" and message["Tag"].lower() != wanted.lower():
                return False
        return True
