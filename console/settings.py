"""Django settings: one module for every place, told apart by environment variables.

Locally (``COUNTERSIGN_MODE=local``) whatever is not set is taken from the instance that runs in
DATA_DIR. In production everything is set from outside and a missing secret stops the boot.
Every variable read here stands in ``.env.example``.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils.csp import CSP

from console import env
from console.runner.datadir import DataDir

BASE_DIR = Path(__file__).resolve().parent.parent

MODE = env.one_of("COUNTERSIGN_MODE", ("local", "production"), "local")
PRODUCTION = MODE == "production"
DEBUG = env.flag("COUNTERSIGN_DEBUG", default=False)
if DEBUG and PRODUCTION:
    raise env.Misconfigured(
        "COUNTERSIGN_DEBUG", "is on in production", "debug pages show secrets; unset it"
    )

# Local instances ---------------------------------------------------------------------------------

DATA_DIR = DataDir.from_environment()
_instance = None if PRODUCTION else DATA_DIR.instance()
DEMO = env.flag("DEMO", default=False)

# Secrets -----------------------------------------------------------------------------------------

if PRODUCTION:
    SECRET_KEY = env.required(
        "SECRET_KEY", "python -c 'import secrets; print(secrets.token_urlsafe(50))'"
    )
    env.required(
        "COUNTERSIGN_KEYRING",
        "comma-separated Fernet keys, the newest first: python -c "
        "'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'",
    )
    COUNTERSIGN_KEYRING = env.listed("COUNTERSIGN_KEYRING")
else:
    _local = DATA_DIR.secrets() if not env.text("SECRET_KEY") else None
    SECRET_KEY = env.text("SECRET_KEY", _local.secret_key if _local else "")
    COUNTERSIGN_KEYRING = env.listed("COUNTERSIGN_KEYRING") or [
        (_local or DATA_DIR.secrets()).keyring
    ]
SECRET_KEY_FALLBACKS = env.listed("SECRET_KEY_FALLBACKS")

# What grants are signed with: a folder of encrypted PKCS#8 files, mode 0600. Locally a key marked
# `dev:` is made there on first use; in production `manage.py create_signing_key` makes one.
SIGNING_KEY_DIR = Path(env.text("COUNTERSIGN_SIGNING_KEYS", str(DATA_DIR.path / "keys")))
SIGNING_KEY_PASSPHRASE = env.text("COUNTERSIGN_SIGNING_PASSPHRASE", COUNTERSIGN_KEYRING[-1])

# What the ledger's checkpoints are signed with: a folder of its own, so that only the sequencer
# needs to reach it. The newest checkpoint is kept outside the database too, in this file.
LEDGER_KEY_DIR = Path(env.text("COUNTERSIGN_LEDGER_KEYS", str(DATA_DIR.path / "ledger-keys")))
LEDGER_CHECKPOINT_FILE = Path(
    env.text("COUNTERSIGN_LEDGER_CHECKPOINT", str(DATA_DIR.path / "ledger" / "checkpoint"))
)

# Where it is served ------------------------------------------------------------------------------

PORT = env.integer("PORT", _instance.port if _instance else 8000)
if PRODUCTION:
    _base_url = env.required("COUNTERSIGN_ORIGIN", "the console's origin, as people type it")
else:
    _base_url = env.text(
        "COUNTERSIGN_ORIGIN", _instance.base_url if _instance else f"http://localhost:{PORT}"
    )
# The origin in links, in alerts and for passkeys (the host name is the passkeys' relying party).
BASE_URL, BASE_HOST = env.origin("COUNTERSIGN_ORIGIN", _base_url)
ALLOWED_HOSTS = [BASE_HOST, *env.listed("COUNTERSIGN_ALLOWED_HOSTS")]
if not PRODUCTION:
    ALLOWED_HOSTS += ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = [BASE_URL]

# Application -------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_htmx",
    "operations",
    "approvals",
    "reconcilers",
    "console",
]

# All of these run under ASGI without a thread of their own; a middleware that cannot would hold a
# thread for each waiting agent.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.middleware.SignedInOnly",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.middleware.PrivatePages",
    "console.middleware.RefusalsInWords",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csp",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

AUTH_USER_MODEL = "approvals.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

# Postgres ----------------------------------------------------------------------------------------

# With no instance and no DATABASE_URL, commands that need no database still work; the others say
# what is missing, because the folder's name is in the driver's error.
_nowhere = f"postgresql:///countersign?host={DATA_DIR.path}/no-instance-runs-here-try-make-run"
DATABASE_URL = (
    env.required("DATABASE_URL", "postgresql://user:password@host:5432/countersign")
    if PRODUCTION
    else env.text("DATABASE_URL", _instance.database_url if _instance else _nowhere)
)
_connection: dict[str, Any] = env.database("DATABASE_URL", DATABASE_URL)
# Connections that one process may hold; 0 gives each thread its own (tests with many threads).
_pool_size = env.integer("DATABASE_POOL_SIZE", 12)
# Nobody waits ten seconds for a connection to nowhere.
if _pool_size and _nowhere != DATABASE_URL:
    _connection["OPTIONS"]["pool"] = {"min_size": 1, "max_size": _pool_size, "timeout": 10}
DATABASES = {
    "default": {
        **_connection,
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": bool(_pool_size),
        "DISABLE_SERVER_SIDE_CURSORS": env.flag("DATABASE_BEHIND_PGBOUNCER", default=False),
    }
}

# Threads of one web process that run the API's services, each with a connection of its own beside
# the pool's; requests beyond them queue.
API_THREADS = env.integer("API_THREADS", 8)

# An operation whose recorded result was given more often than this opens an incident; 0: never.
# A resumed run asks for each finished step once, so that many resumptions are unusual.
REPLAY_ALARM = env.integer("COUNTERSIGN_REPLAY_ALARM", 20)

# Redis and Celery --------------------------------------------------------------------------------

REDIS_URL = env.redis_url(
    "REDIS_URL",
    env.required("REDIS_URL", "redis://user:password@host:6379/0")
    if PRODUCTION
    else env.text("REDIS_URL", _instance.redis_url if _instance else "redis://127.0.0.1:6379/0"),
)
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
# The table is the truth and the queue a hint, so a task that is run twice is harmless and one that
# is lost comes back by its sweep. Acknowledge late, hold little, and never give up on the broker.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # A task whose worker died unseen is handed out again after this many seconds.
    "visibility_timeout": 300,
    "socket_keepalive": True,
    "socket_timeout": 30,
    "health_check_interval": 15,
    "retry_on_timeout": True,
}
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_CREATE_MISSING_QUEUES = True
CELERY_TASK_ROUTES = {
    "reconcilers.*": {"queue": "reconcile"},
    "console.alerts.*": {"queue": "notify"},
}
CELERY_TIMEZONE = "UTC"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

# People: passwords, sessions ---------------------------------------------------------------------

PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"

SESSION_COOKIE_NAME = "__Host-session" if PRODUCTION else "countersign_session"
SESSION_COOKIE_AGE = int(timedelta(hours=12).total_seconds())
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = PRODUCTION
CSRF_COOKIE_NAME = "__Host-csrf" if PRODUCTION else "countersign_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = PRODUCTION
CSRF_FAILURE_VIEW = "console.views.errors.csrf_failure"

# Transport and pages -----------------------------------------------------------------------------

SECURE_SSL_REDIRECT = PRODUCTION
# Probes come from inside, over plain HTTP and without the proxy.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds()) if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = PRODUCTION
SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if env.flag("COUNTERSIGN_BEHIND_PROXY", default=False):
    # Only where a proxy sets this header itself and drops what clients send.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
    "require-trusted-types-for": ["'script'"],
    "trusted-types": ["htmx"],
}

STATIC_URL = "/static/"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "console.assets.VersionedStorage"},
}

# API bodies have bounds of their own (the batch endpoint takes 8 MiB); this is the forms' bound.
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024

# Logs --------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
        "httpx": {"level": "WARNING"},
        "stripe": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
    },
}
