"""Every page's address. Ids are typed and every state that matters is in the address."""

from django.urls import include, path, register_converter

from console.views import (
    alerts,
    approvals,
    audit,
    drills,
    errors,
    evidence,
    go,
    me,
    operations,
    overview,
    reconcilers,
    runs,
    session,
    tools,
    unknown,
    welcome,
)


class Handle:
    """`op_` and 26 digits; any case is read, links are written in lower case."""

    prefix = ""
    digits = "[0-9a-zA-Z]{26}"

    def to_python(self, value: str) -> str:
        """As the pages write it."""
        return value.lower()

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


for kind in ("op", "apr", "run", "inc", "acc"):
    register_converter(type(kind, (Handle,), {"regex": f"{kind}_{Handle.digits}"}), kind)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("environment/", overview.choose_environment, name="environment"),
    path("navigation/", overview.navigation, name="navigation"),
    path("login/", session.sign_in, name="login"),
    path("logout/", session.sign_out, name="logout"),
    path("welcome/", welcome.welcome, name="welcome"),
    path("unknown/", unknown.unknown, name="unknown"),
    path("unknown/next/", unknown.take_next, name="unknown-next"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<apr:handle>/", approvals.approval, name="approval"),
    path("approvals/<apr:handle>/bundle/", evidence.approval_bundle, name="approval-bundle"),
    path("ops/", operations.operations, name="operations"),
    path("ops/<op:handle>/", operations.operation, name="operation"),
    path("ops/<op:handle>/bundle/", evidence.operation_bundle, name="operation-bundle"),
    path("ops/<op:handle>/ask/", operations.ask_provider, name="operation-ask"),
    path("ops/<op:handle>/evidence/", operations.evidence_pack, name="operation-evidence"),
    path("ops/<op:handle>/looks/<int:finding>/", operations.look, name="operation-look"),
    path("unknown/ask/", unknown.ask_for_group, name="unknown-ask"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<run:handle>/", runs.run, name="run"),
    path("reconcilers/", reconcilers.reconcilers, name="reconcilers"),
    path("reconcilers/<uuid:account>/pause/", reconcilers.pause, name="reconcilers-pause"),
    path("reconcilers/accounts/", include("console.account_urls")),
    path("tools/", tools.tools, name="tools"),
    path("tools/<path:name>/", tools.tool, name="tools-tool"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/<inc:handle>/", alerts.incident_page, name="alerts-incident"),
    path("alerts/<inc:handle>/acknowledge/", alerts.acknowledge, name="alerts-acknowledge"),
    path("alerts/<inc:handle>/resolve/", alerts.resolve, name="alerts-resolve"),
    path("audit/", audit.audit, name="audit"),
    path("audit/export/", evidence.audit_file, name="audit-export"),
    path("drills/", drills.drills, name="drills"),
    path("go/", go.go, name="go"),
    path("go/suggestions/", go.suggestions, name="go-suggestions"),
    path("go/<path:wanted>", go.go, name="go-to"),
    path("me/", me.me, name="me"),
    path("me/shortcuts/", me.shortcuts, name="shortcuts"),
    path("", include("console.signing_urls")),
]

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.page_not_found
handler500 = errors.server_error
