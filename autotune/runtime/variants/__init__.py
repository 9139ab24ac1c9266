"""Other ways to compute a group of a plan, or several: what searches in place and online learning try."""
