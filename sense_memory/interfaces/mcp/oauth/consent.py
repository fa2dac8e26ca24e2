"""The page that asks the user whether a client may reach the memory. It has no script, and cannot be framed.

It shows what the client calls itself, which anybody may make up, and the host that gets the answer, which nobody can. Who
agrees types a one-time code that only a terminal of this machine shows (`sense-memory access code`).
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse


if TYPE_CHECKING:
    from sense_memory.interfaces.mcp.oauth.provider import ConsentRequest

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:30rem;margin:8vh auto;padding:0 1rem}"
    "dt{font-weight:600}dd{margin:0 0 .75rem;overflow-wrap:anywhere}label{display:block;margin:1rem 0 .25rem}"
    "input{font:1.5rem ui-monospace,monospace;width:11ch;padding:.4rem .6rem;text-transform:uppercase}"
    "button{font:inherit;padding:.6rem 1.2rem;margin:1rem .5rem 0 0}.problem{border-left:.3rem solid #c33;padding-left:.7rem}"
)
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>sense-memory</title>
<style>{style}</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""
_FORM: Final = """{problem}<dl>
<dt>It calls itself</dt><dd>{name}</dd>
<dt>The answer goes to</dt><dd><strong>{place}</strong>{warning}</dd>
<dt>It will be able to</dt><dd>{reach} the memory of the agent <em>{agent}</em>, until you run <code>sense-memory access revoke</code></dd>
</dl>
<p>Allow this only if you have just asked for it yourself, in a program that belongs to the host above.</p>
<form method="post" action="consent">
<input type="hidden" name="request" value="{request}">
<label for="code">The code that <code>{command}</code> shows on the machine of the memory</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="characters" spellcheck="false" maxlength="16">
<br><button name="answer" value="allow">Allow</button><button name="answer" value="deny">Do not allow</button>
</form>
"""
_LOOPBACK_WARNING: Final = " (a program on the machine whose browser shows this page)"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ConsentPages:
    """The pages of one server.

    Args:
        agent: whose memory it is.
        is_read_only: whether the server offers only tools that read.
    """

    def __init__(self, agent: str, *, is_read_only: bool) -> None:
        self._agent = agent
        self._reach = "read" if is_read_only else "read and change"
        self._command = "sense-memory" + ("" if agent == "default" else f" --agent {agent}") + " access code"

    def form(self, asked: ConsentRequest, sealed: str, *, problem: str = "") -> HTMLResponse:
        """The question, and what was wrong with the answer before."""
        warning = _LOOPBACK_WARNING if asked.place in _LOOPBACK else ""
        body = _FORM.format(
            problem=f'<p class="problem" role="alert">{escape(problem)}</p>\n' if problem else "",
            name=escape(asked.name or "nothing"),
            place=escape(asked.place),
            warning=warning,
            reach=self._reach,
            agent=escape(self._agent),
            request=escape(sealed),
            command=escape(self._command),
        )
        parts = urlsplit(asked.redirect_uri)
        # Chromium checks the address that the answer redirects to, too.
        policy = f"form-action 'self' {parts.scheme}://{parts.netloc}"
        status = 403 if problem else 200
        return _page("May this program reach the memory?", body, status, policy)

    def denied(self, asked: ConsentRequest, location: str) -> HTMLResponse:
        """Nothing was allowed; a link tells the client so, because nobody is sent to an address that was not allowed."""
        link = f'<a href="{escape(location)}" rel="noreferrer">Back to {escape(asked.place)}</a>'
        return _page("Not allowed", f"<p>The program gets no access.</p>\n<p>{link}</p>", 200)


def told(title: str, reason: str, status: int = 400) -> HTMLResponse:
    """A page that says why a request is not answered."""
    return _page(title, f"<p>{escape(reason)}</p>", status)


def _page(title: str, body: str, status: int, policy: str = "form-action 'none'") -> HTMLResponse:
    headers = {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        f"frame-ancestors 'none'; {policy}",
        # "no-referrer" would make browsers send `Origin: null` with the form.
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "DENY",
    }
    return HTMLResponse(_PAGE.format(style=_STYLE, title=title, body=body), status, headers)
