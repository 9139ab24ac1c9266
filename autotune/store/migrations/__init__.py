"""Revisions of the store's schema, one file each; Alembic runs them on stores of an older version."""
