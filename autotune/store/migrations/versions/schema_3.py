"""Schema 3: measurements tell their toolchain; the best schedule of a group is one look into an index."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "3", "2"

CALIBRATED = sa.text("source = 'calibrate'")


def upgrade() -> None:
    """Add the toolchain, unknown of what was measured before, and make the indexes anew."""
    op.add_column("records", sa.Column("toolchain", sa.Text, nullable=False, server_default=""))
    keys = ["profile_id", "toolchain", "group_key", "schedule_json"]
    if op.get_bind().dialect.name == "postgresql":
        op.drop_index("calibrated_once_by_hash", "records")
        hashed: list[str | sa.TextClause] = [*keys[:2]]
        hashed += [sa.text(f"md5({key})") for key in keys[2:]]
        op.create_index(
            "calibrated_once_by_hash", "records", hashed, unique=True, postgresql_where=CALIBRATED
        )
    else:
        op.drop_index("calibrated_once", "records")
        op.create_index("calibrated_once", "records", keys, unique=True, sqlite_where=CALIBRATED)
    op.create_index("best_of_group", "records", ["profile_id", "group_key", "outcome", "cycles"])
