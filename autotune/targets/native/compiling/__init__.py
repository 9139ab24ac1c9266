"""From IR text to object code in memory, with a cache on disk."""
