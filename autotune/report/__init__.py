"""Reports: what a search found, as one self-contained HTML page."""
