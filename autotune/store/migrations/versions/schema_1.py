"""Schema 1: the first one. Its tables were made by versions before migrations."""

revision, down_revision = "1", None


def upgrade() -> None:
    """Nothing: stores of today are made whole."""
