#!/bin/sh
# Makes .venv from requirements.lock, and does nothing, quickly, when it is already so.
#
# Needs a POSIX shell and any working CPython 3.12–3.14 (or uv, which can bring one). A version
# manager's shim may sit on the PATH and not work, so every candidate is run, never just found.
# PYTHON=/path/to/python picks the interpreter by hand.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
venv=$root/.venv
lock=$root/requirements.lock
stamp=$venv/.countersign-stamp

say() { printf '%s\n' "setup: $*" >&2; }

# What the environment was made of. The folder is part of it: an environment that was moved has
# the old folder written into its scripts.
wanted() {
    printf '%s\n%s\n' "$root" "$(cksum < "$lock")"
    cksum < "$root/console/runner/bootstrap.sh"
}

fresh() {
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted)" ] && [ -x "$venv/bin/python" ]
}

# Does it run, is it a version we test, and can it make an environment (or can uv do that for it)?
works() {
    "$1" -c '
import ssl, sys, sysconfig, venv
ok = sys.implementation.name == "cpython" and (3, 12) <= sys.version_info[:2] <= (3, 14)
ok = ok and not sysconfig.get_config_var("Py_GIL_DISABLED")
if ok and sys.argv[1] != "uv":
    import ensurepip
sys.exit(not ok)' "${uv:+uv}" >/dev/null 2>&1
}

candidates() {
    [ -z "${PYTHON:-}" ] || printf '%s\n' "$PYTHON"
    for name in python3.13 python3.14 python3.12 python3; do
        command -v "$name" || true
    done
    for home in "${PYENV_ROOT:-}" "${HOME:-}/.pyenv"; do
        for minor in 13 14 12; do
            for python in "$home"/versions/3."$minor"*/bin/python; do
                [ ! -x "$python" ] || printf '%s\n' "$python"
            done
        done
    done
    if [ -n "$uv" ]; then
        for version in 3.13 3.14 3.12; do
            "$uv" python find --no-python-downloads "$version" 2>/dev/null || true
        done
    fi
}

find_python() {
    candidates | while IFS= read -r python; do
        if works "$python"; then
            printf '%s\n' "$python"
            break
        fi
    done
}

# The lock's own lines for uv, so that it too is installed by hash.
uv_pin() {
    awk '/^[A-Za-z0-9]/ { on = /^uv==/ } on' "$lock"
}

# uv installs the rest five times faster than pip does.
install_uv() {
    pin=$(mktemp)
    uv_pin > "$pin"
    if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary :all: --no-deps -r "$pin" 2>/dev/null; then
        uv=$venv/bin/uv
    fi
    rm -f "$pin"
}

# No Python is new enough, but an old one's pip can bring uv, which can bring a new Python.
borrow_uv() {
    pin=$(mktemp)
    uv_pin > "$pin"
    for python in python3 python; do
        if "$python" -m pip install --quiet --disable-pip-version-check --require-hashes \
            --only-binary :all: --no-deps --target "$root/.uv" -r "$pin" >/dev/null 2>&1; then
            uv=$root/.uv/bin/uv
            break
        fi
    done
    rm -f "$pin"
}

install_lock() {
    if [ -n "$uv" ]; then
        "$uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes -r "$lock" && return
        say "uv could not install the lock; trying pip"
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes -r "$lock"
}

make_venv() {
    python=$(find_python)
    if [ -z "$python" ]; then
        [ -n "$uv" ] || borrow_uv
        if [ -n "$uv" ]; then
            say "no working Python 3.12-3.14 here; asking uv for one"
            "$uv" python install --quiet 3.13 || true
            python=$(find_python)
        fi
    fi
    if [ -z "$python" ]; then
        say "Countersign needs a working CPython 3.12, 3.13 or 3.14, with its venv module."
        say "Install one (Debian: python3 and python3-venv), or name it: make setup PYTHON=/path/to/python"
        exit 1
    fi
    say "making .venv with $("$python" --version 2>&1)"
    rm -rf "$venv"
    "$python" -m venv "$venv" 2>/dev/null || {
        rm -rf "$venv"
        "$uv" venv --quiet --seed --python "$python" "$venv"
    }
}

# The product is not a distribution: its folder is put on the path, so that every tool finds it from
# wherever it is run. The agents' SDK is one, and here it is imported from its folder.
link_sources() {
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$root" "$root/sdk/src" "$root/sdk" > "$site/countersign.pth"
}

! fresh || exit 0

# Two terminals may both start with `make`: the second one waits for the first one's work.
if command -v flock >/dev/null 2>&1 && [ -z "${COUNTERSIGN_SETUP_LOCKED:-}" ]; then
    COUNTERSIGN_SETUP_LOCKED=1 exec flock "$root/requirements.lock" sh "$0"
fi

# Companies put their own authority into the system store; Python and uv should trust it alike.
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"
uv=$(command -v uv || true)
[ -z "$uv" ] || "$uv" --version >/dev/null 2>&1 || uv=
moved=no
[ ! -f "$stamp" ] || [ "$(head -n 1 "$stamp")" = "$root" ] || moved=yes
if [ "$moved" = yes ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    make_venv
fi
rm -f "$stamp"
[ -n "$uv" ] || install_uv
say "installing the locked dependencies"
install_lock
link_sources
wanted > "$stamp"
say "ready: $("$venv/bin/python" --version)"
