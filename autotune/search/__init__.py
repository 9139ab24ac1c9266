"""Search over schedules and fusion with the cost model; calling the package is ``autotune.search``.

The facade ``autotune.search(...)`` shares its name with this package, and the import system binds
the package to that name. So the package's module can be called; it hands over to ``autotune.api``,
which stands above it and is therefore looked up when it is called.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """A package whose call is the library function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See ``autotune.api.search``."""
        return importlib.import_module("autotune.api").search(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
