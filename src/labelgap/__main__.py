"""``python -m labelgap`` is ``labelgap``."""

from labelgap.cli import main

if __name__ == "__main__":
    main()
