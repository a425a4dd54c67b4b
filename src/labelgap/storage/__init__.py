"""Files that labelgap writes for itself: numbers and JSON, never code."""

from labelgap.storage.atomic import atomic_write
from labelgap.storage.container import Contents, read_file, write_file

__all__ = ["Contents", "atomic_write", "read_file", "write_file"]
