"""Files that labelgap writes for itself: numbers and JSON, never code."""

from labelgap.storage.container import Contents, read_file, write_file

__all__ = ["Contents", "read_file", "write_file"]
