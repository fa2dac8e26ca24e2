"""`sense-memory web` before it serves; tests/interfaces/web/ has what is served."""

from __future__ import annotations

import socket
import sys

import pytest

from sense_memory.interfaces.cli import web


def test_a_port_that_is_taken_is_named(agent):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = agent("web", "--no-open", "--port", port, code=1)

    assert f"port {port} cannot be used" in done.stderr


def test_without_the_extra_the_error_says_how_to_get_it(agent, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    assert "pip install '.[web]'" in agent("web", code=1).stderr


@pytest.mark.parametrize(
    ("platform", "variables", "has_one"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {}, True),
    ],
)
def test_a_browser_is_opened_only_where_there_is_a_screen(monkeypatch, platform, variables, has_one):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)

    assert has_one == web._has_display()
