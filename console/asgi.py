"""The ASGI application: static files from memory, everything else through Django."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

django_application = get_asgi_application()

# Imported late: both need the settings that the line above has set up.
from console.assets import Assets  # noqa: E402

application = Assets(django_application)
