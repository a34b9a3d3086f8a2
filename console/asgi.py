"""The ASGI application: static files from memory, the API by its gateway, pages by Django."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# The stubs call its scope a dict; ASGI calls it a mutable mapping.
django_application: Any = get_asgi_application()

# Imported late: they need the settings that the line above has set up.
from approvals import signing_keys  # noqa: E402
from console.api.addresses import ROUTES  # noqa: E402
from console.api.gateway import Gateway  # noqa: E402
from console.api.process import Process  # noqa: E402
from console.api.routes import Table  # noqa: E402
from console.assets import Assets  # noqa: E402

# Without a key no approved call could run; the first one is too late to find that out.
signing_keys.check_there_is_one()

application = Assets(Gateway(django_application, Table(ROUTES), Process()))
