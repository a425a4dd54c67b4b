"""Which entries to ask about next: expected gains of the metric, and batches without near-duplicates."""

from labelgap.asking.gains import entry_gains
from labelgap.asking.spreading import choose_spread
from labelgap.asking.suggestions import Suggestions

__all__ = ["Suggestions", "choose_spread", "entry_gains"]
