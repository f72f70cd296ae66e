"""Chromium, and a server for it to visit."""

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

_NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium here: install Debian's chromium, or name a browser in DRPN_CHROMIUM"


def find_browser() -> str | None:
    """The path of Chromium; None if there is none."""
    return os.environ.get("DRPN_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of a server that runs in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=30)
