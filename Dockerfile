# One image for web, worker, beat, sequencer and migrate; docker-compose.yml says which is which.
# Nothing secret goes in: settings and keys come from the environment at run time.

FROM python:3.13-slim-bookworm AS build
COPY requirements-runtime.lock /build/
RUN python -m venv /opt/countersign \
    && /opt/countersign/bin/pip install --no-cache-dir --require-hashes -r /build/requirements-runtime.lock

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin countersign \
    && install -d -o 10001 -g 10001 -m 0700 /keys /ledger-keys /ledger
COPY --from=build /opt/countersign /opt/countersign
WORKDIR /app
COPY manage.py ./
COPY operations operations
COPY approvals approvals
COPY reconcilers reconcilers
COPY console console
COPY templates templates
# Compiled now, because the containers run on a read-only file system.
RUN /opt/countersign/bin/python -m compileall -q /app
ENV PATH=/opt/countersign/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    COUNTERSIGN_MODE=production
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["uvicorn", "console.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--no-access-log", "--no-server-header", "--timeout-graceful-shutdown", "10"]
