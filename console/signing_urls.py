"""Addresses of everything that signs. Opening one never signs, stores or decides anything."""

from django.urls import path

from console.views import keys, settling, signing

urlpatterns = [
    path("approvals/<apr:handle>/sign/", signing.approval_form, name="approval-sign"),
    path("approvals/<apr:handle>/sign/start/", signing.approval_start, name="approval-start"),
    path("approvals/<apr:handle>/sign/finish/", signing.approval_finish, name="approval-finish"),
    path(
        "approvals/<apr:handle>/receipt/<str:decision_id>/",
        signing.approval_receipt,
        name="approval-receipt",
    ),
    path("ops/<op:handle>/settle/sign/", settling.settle_form, name="settle-sign"),
    path("ops/<op:handle>/settle/sign/start/", settling.settle_start, name="settle-start"),
    path("ops/<op:handle>/settle/sign/finish/", settling.settle_finish, name="settle-finish"),
    path(
        "ops/<op:handle>/settle/receipt/<str:decision_id>/",
        settling.settle_receipt,
        name="settle-receipt",
    ),
    path("me/keys/", keys.own_keys, name="keys"),
    path("me/keys/confirm/", keys.confirm, name="keys-confirm"),
    path("me/keys/enrol/", keys.enrol_form, name="keys-enrol"),
    path("me/keys/enrol/start/", keys.enrol_start, name="keys-enrol-start"),
    path("me/keys/enrol/finish/", keys.enrol_finish, name="keys-enrol-finish"),
    path("me/keys/countersign/", keys.countersign, name="keys-countersign"),
    path("me/keys/recognise/", keys.recognise, name="keys-recognise"),
    path("me/keys/revoke/", keys.revoke, name="keys-revoke"),
]
