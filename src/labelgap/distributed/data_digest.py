"""A short name for the contents of all partitions, by which a checkpoint knows its data."""

from __future__ import annotations

from labelgap.distributed.partitions import Own, Partition
from labelgap.distributed.rounds import Rounds
from labelgap.fitting.checkpoint import digest


def digest_of(rounds: Rounds) -> str:
    """The digest of the partitions in their order: other partitions of the same rows have another one."""
    return digest(rounds.each_of(_digest))


def _digest(part: Partition, own: Own) -> str:
    return digest(part.X, part.labels, part.row_ids)
