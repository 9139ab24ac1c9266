"""Faults of a server: turns what PostgreSQL reports into the reason and the way out."""

from __future__ import annotations

OTHERWISE = "give another --store or AUTOTUNE_STORE"
_LONGEST = 200
_BY_STATE = {
    "28": "the server refuses the user or the password ({0}); mend the URL, PGPASSWORD or ~/.pgpass",
    "3D": "{0}; make it with createdb, or {1}",
    "42501": "{0}; have the server's owner grant it, or {1}",
    "25006": "the store is read-only ({0}); {1}",
    "53100": "the server's disk is full; nothing of this change was stored: free space there, or {1}",
    "53300": "the server takes no more connections ({0}); try again, or raise max_connections",
    "55P03": "another program holds the store ({0}); end it or try again",
    "57": "the server ended the connection ({0}); try again",
    "08": "the connection to the server broke ({0}); try again",
    "42P01": "its tables were changed ({0}); {1}",
    "XX": "the server found damage ({0}); restore a backup, or {1}",
}
"""Remedies by the beginning of an error's SQLSTATE: {0} is the server's message, {1} another store."""


def server_reason(error: Exception) -> str:
    """Return why a server refused, and the way out. No message of a server has a password in it."""
    state = getattr(error, "sqlstate", None) or ""
    text = _line(error)
    for begin, form in _BY_STATE.items():
        if state.startswith(begin):
            return form.format(text, OTHERWISE)
    if not state and type(error).__name__ in ("OperationalError", "ConnectionTimeout"):
        return _unreachable(text)
    if not state and type(error).__name__ == "ProgrammingError":
        return f"the URL is wrong ({text}); {OTHERWISE}"
    return f"unexpected database error ({text}); {OTHERWISE}"


def _unreachable(text: str) -> str:
    """Tell errors of opening apart: the client library gives no SQLSTATE with them."""
    told = text.rpartition("FATAL: ")[2]
    if told.strip().startswith("database") and "does not exist" in told:
        return _BY_STATE["3D"].format(told, OTHERWISE)
    if "password" in text or told.startswith(("role", "no pg_hba")):
        return _BY_STATE["28"].format(told, OTHERWISE)
    return f"the server cannot be used ({text}); start it, check host and port, or {OTHERWISE}"


def _line(error: Exception) -> str:
    """Return the message in one line."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
