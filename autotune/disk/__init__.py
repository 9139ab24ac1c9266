"""Files and folders of this program: written whole or not at all, private, bounded."""
