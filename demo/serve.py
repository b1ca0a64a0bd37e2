"""Serving the page: limits, no requests to anywhere else, nothing left behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from ..types import Query
from .app import build
from .engine import Ask, ask
from .library import Library
from .theme import script, style, theme
from .uploads import MAX_UPLOAD_BYTES

_SESSIONS = 500
_WAITING = 64
_AT_ONCE = 4

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Served:
    """A running page.

    Attributes:
        url: its address on this machine.
        app: the Gradio app.
    """

    url: str
    app: gr.Blocks


@contextmanager
def serving(
    library: Library, *, host: str = "127.0.0.1", port: int | None = None, browser: bool = False
) -> Iterator[Served]:
    """Serve the page while the block runs.

    Args:
        library: what the page searches.
        host: address to listen on; the default is reachable from this machine only.
        port: to listen on; a free one from 7860 on when ``None``.
        browser: open the page in the default browser.

    Yields:
        The running page.

    Raises:
        OSError: when the port is taken.
    """
    with tempfile.TemporaryDirectory(prefix="omniembed-demo-") as uploads, _environment(uploads):
        _warm(library)
        app = build(library)
        app.queue(max_size=_WAITING, default_concurrency_limit=_AT_ONCE, api_open=False)
        _, url, _ = app.launch(
            server_name=host,
            server_port=port,
            inbrowser=browser,
            share=False,
            quiet=True,
            prevent_thread_lock=True,
            show_error=False,
            max_file_size=MAX_UPLOAD_BYTES,
            state_session_capacity=_SESSIONS,
            enable_monitoring=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            footer_links=[],
            # Middleware can only be added before the server has started.
            app_kwargs={"middleware": [Middleware(NoFetching)]},
            theme=theme(),
            css=style(),
            js=script(),
        )
        try:
            yield Served(url, app)
        finally:
            app.close(verbose=False)


class NoFetching:
    """Keeps the server from fetching addresses that a visitor names in a path.

    Args:
        app: the ASGI application behind.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        Args:
            scope: of ASGI.
            receive: likewise.
            send: likewise.
        """
        path = str(scope.get("path", ""))
        named = path.partition("/file=")[2] or path.partition("/file/")[2]
        if "/proxy=" in path or "://" in named or named.lower().startswith(("http:", "https:")):
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": b"Not served here."})
            return
        await self._app(scope, receive, send)


def _warm(library: Library) -> None:
    """Load the towers, so that the first visitor does not wait for them."""
    ask(library.omni.embedder, library.omni.store, Ask(Query(text="hello"), top_k=1))


@contextmanager
def _environment(uploads: str) -> Iterator[None]:
    """Keep uploads in a folder of our own, and Gradio from calling home."""
    wanted = {"GRADIO_TEMP_DIR": uploads, "GRADIO_ANALYTICS_ENABLED": "False"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
