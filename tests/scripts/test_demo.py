"""`make demo` opens a page only where somebody can look at it."""

from __future__ import annotations

import pytest
from rich.console import Console

from scripts.demo import demo


@pytest.mark.parametrize(
    ("is_terminal", "display", "arguments", "opens"),
    [
        (True, ":0", [], True),
        (True, ":0", ["--no-open"], False),
        (True, None, [], False),
        (False, ":0", [], False),
    ],
)
def test_the_page_is_opened_only_in_a_terminal_with_a_display(
    is_terminal, display, arguments, opens, monkeypatch
):
    pytest.importorskip("starlette")
    monkeypatch.setattr(demo, "console", Console(force_terminal=is_terminal))
    monkeypatch.setattr(demo.sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    if display:
        monkeypatch.setenv("DISPLAY", display)

    assert demo.can_open_page(arguments) is opens
