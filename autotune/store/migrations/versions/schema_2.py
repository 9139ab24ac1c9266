"""Schema 2: compiled programs left for files in the cache; their table never had a row."""

from alembic import op

revision, down_revision = "2", "1"


def upgrade() -> None:
    """Drop the table of programs."""
    op.drop_table("programs")
