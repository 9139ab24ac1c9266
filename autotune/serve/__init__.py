"""Predictions, best known schedules and plans over HTTP; the extra ``autotune[serve]``."""
