from collections.abc import Mapping
from typing import Any

from autotune.isa.functions import Transform
from autotune.isa.tile import TileWriter, View

PATCHES: dict[int, int]
THERE: dict[int, Transform]
BACK: dict[int, Transform]

def there(writer: TileWriter, v: View, x: View) -> None: ...
def back(writer: TileWriter, y: View, m: View, epilogue: Mapping[str, Any]) -> None: ...
def products(writer: TileWriter, m: View, u: View, v: View) -> None: ...
