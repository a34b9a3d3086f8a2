"""The tools of the demo, as an agent would write them: plain HTTP with the key where it belongs."""

import time
from collections.abc import Callable
from typing import Any

import httpx
from countersign import ClearedCall, Done

from crashlab.demo_agents.mishaps import Mishaps
from crashlab.demo_agents.setting import Setting

#: As `docs/demo-catalogue.yaml` says of these tools.
TIMEOUT_SECONDS = 4.0


class Effects:
    """`effect_of(tool, mishap)` is what `run.call` executes."""

    def __init__(self, setting: Setting) -> None:
        self._mishaps = Mishaps(setting.state / "mishaps", setting.provider)
        headers = {"Authorization": f"Bearer {setting.provider_key}"}
        self._http = httpx.Client(
            base_url=setting.provider, headers=headers, timeout=TIMEOUT_SECONDS
        )
        self._tools: dict[str, Callable[[ClearedCall], Any]] = {
            "stripe.charge": self._charge,
            "stripe.refund": self._refund,
            "mail.send": self._mail,
            "crm.lookup": self._lookup,
            "ledger.adjust": self._adjust,
            "report.render": self._render,
        }

    def effect_of(self, tool: str, mishap: str | None) -> Callable[[ClearedCall], Any]:
        def effect(cleared: ClearedCall) -> Any:
            self._mishaps.before(mishap, cleared)
            cleared.ensure_permit()
            done = self._tools[tool](cleared)
            if mishap == "sent_twice":
                self._send_again_with_another_key(cleared)
            self._mishaps.after(mishap, cleared)
            return done

        return effect

    def _charge(self, cleared: ClearedCall) -> Done:
        args = cleared.args
        card = {"confirm": "true", "payment_method": args.pop("card", "pm_card_visa")}
        return self._stripe("payment_intents", cleared, args | card)

    def _refund(self, cleared: ClearedCall) -> Done:
        return self._stripe("refunds", cleared, cleared.args)

    def _stripe(self, resource: str, cleared: ClearedCall, form: dict[str, Any]) -> Done:
        marked = form | {"metadata[idem_key]": cleared.idem_key}
        key = {"Idempotency-Key": cleared.idem_key}
        answer = self._http.post(f"/v1/{resource}", data=marked, headers=key)
        made = answer.raise_for_status().json()
        kept = {name: made[name] for name in ("id", "object", "amount", "currency", "status")}
        return Done(kept, made["id"], made["status"])

    def _send_again_with_another_key(self, cleared: ClearedCall) -> None:
        """The bug that the console is to find: a layer below takes its timeout for a failure and
        retries under a key of its own."""
        form = cleared.args | {"confirm": "true", "payment_method": "pm_card_visa"}
        form |= {"metadata[idem_key]": cleared.idem_key}
        key = {"Idempotency-Key": f"{cleared.idem_key}-retry"}
        self._http.post("/v1/payment_intents", data=form, headers=key).raise_for_status()
        raise httpx.ReadTimeout("the second send got no answer in time, either")

    def _mail(self, cleared: ClearedCall) -> Done:
        answer = self._http.post(
            "/mail/send", json=cleared.args, headers={"X-Lab-Intent": cleared.idem_key}
        )
        sent = answer.raise_for_status().json()
        return Done(sent, sent["id"], sent["status"])

    def _lookup(self, cleared: ClearedCall) -> Any:
        answer = self._http.get(f"/crm/customers/{cleared.args['customer']}")
        return answer.raise_for_status().json()

    def _adjust(self, cleared: ClearedCall) -> Done:
        answer = self._http.post(
            "/ledger-lines", json=cleared.args, headers={"X-Lab-Intent": cleared.idem_key}
        )
        line = answer.raise_for_status().json()
        return Done(line, line["id"])

    def _render(self, cleared: ClearedCall) -> dict[str, Any]:
        time.sleep(float(cleared.args["seconds"]))
        return {"report": cleared.args["report"], "pages": 12}
