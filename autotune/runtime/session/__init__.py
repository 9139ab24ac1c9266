"""Sessions: opening by name, static and dynamic networks, fallbacks, profiles."""
