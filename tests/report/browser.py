"""A real browser for the report's tests: opens a page at a width and a colour scheme, runs a script in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--virtual-time-budget=2000",
)  # fmt: skip
DARK, LIGHT = 0, 1
"""Numbers by which Chromium calls the colour schemes that a user may prefer."""


def asked(page: str, script: str, folder: Path, width: int = 1400, scheme: int = LIGHT) -> Any:
    """Return what ``script``, the body of a function, returns in the opened page, by way of JSON.

    The test is skipped on machines without a browser.
    """
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    script = f"parent.postMessage(JSON.stringify((() => {{ {script} }})()), '*')"
    (folder / "page.html").write_text(
        page.replace("</body>", f"<script>{script}</script></body>"), "utf-8"
    )
    frame = folder / "frame.html"  # a window is no narrower than 500 pixels, a frame is
    frame.write_text(
        "<!doctype html><meta name='color-scheme' content='light dark'><pre id='answer'></pre><script>"
        "addEventListener('message', event => { answer.textContent = event.data; });</script>"
        f"<iframe src='page.html' style='border:0;width:{width}px;height:900px'></iframe>",
        "utf-8",
    )
    command = [
        browser, *QUIET, f"--user-data-dir={folder / 'profile'}", f"--window-size={width + 40},1000",
        f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    text = done.stdout.rpartition('<pre id="answer">')[2].partition("</pre>")[0]
    return json.loads(unescape(text))
