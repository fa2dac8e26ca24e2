"""Modules that are imported when something of them is first used: whoever collects tests need not wait for vendors' SDKs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest


class Late:
    """Has the names of a module, which is imported with the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str):
        if name.startswith("_"):  # as pytest asks each name of a module whether it is a test
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def needs(package: str, reason: str) -> pytest.MarkDecorator:
    """A mark for tests of a package that may not be installed; it is not imported for that."""
    return pytest.mark.skipif(find_spec(package) is None, reason=reason)
