"""Finds providers: every package in `reconcilers/providers/` that has a `provider`."""

import pkgutil
from functools import cache
from importlib import import_module

import reconcilers.providers
from reconcilers.providers.base import Provider


class UnknownProvider(LookupError):
    """No folder of that name is a provider."""


@cache
def providers() -> dict[str, Provider]:
    """Kind -> provider, in order of kind."""
    found: dict[str, Provider] = {}
    for module in pkgutil.iter_modules(reconcilers.providers.__path__):
        if not module.ispkg:
            continue
        package = import_module(f"{reconcilers.providers.__name__}.{module.name}")
        provider = getattr(package, "provider", None)
        if not isinstance(provider, Provider) or provider.kind != module.name:
            raise TypeError(
                f"{package.__name__} has no `provider` of kind {module.name!r}: it must name a"
                " reconcilers.providers.base.Provider"
            )
        found[provider.kind] = provider
    return dict(sorted(found.items()))


def provider_of(kind: str) -> Provider:
    """The provider of this kind; raises UnknownProvider naming those there are."""
    try:
        return providers()[kind]
    except KeyError:
        known = ", ".join(providers()) or "none"
        raise UnknownProvider(f"no provider is called {kind!r}; there are: {known}") from None
