"""Revisions by version of the schema."""
