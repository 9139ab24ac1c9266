"""Worker processes of other packages' pools end with their parent, however that ended.

A pool tells its workers to end when its process exits by itself. After SIGTERM or SIGKILL nobody tells them:
they would wait for work for ever and hold the pipes of whoever started the parent.
"""

from __future__ import annotations

import os
import threading
import time

_EVERY_SECONDS = 0.5


def end_with_parent(parent: int) -> None:
    """Begin to watch for the end of the process ``parent``, and end this one after it. A pool's
    initializer: its workers are children of ``parent``."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:  # another process becomes the parent of an orphan
        time.sleep(_EVERY_SECONDS)
    os._exit(1)
