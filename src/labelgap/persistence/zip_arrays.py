"""Arrays in zip archives, with every size checked before anything is read.

The list of members at the end of an archive can claim anything: sizes beyond all memory, one member a
thousand times, members that overlap so that a small file stands for a very large one. What is claimed here is
compared with the size of the file first, so that reading takes memory and time in proportion to the file.
"""

from __future__ import annotations

import math
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_MEMBERS = 1 << 20
# The shortest header before a member's name and bytes.
_LOCAL_HEADER = 30
# More than so many times its size, and a few bytes, a deflated member cannot become.
_MOST_TIMES, _HEADER = 1040, 1000


def check_members(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError unless the members lie one after the other within ``size`` bytes, each name once."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it lists {len(members)} members, more than {MOST_MEMBERS}")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("it lists a member twice")
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise ValueError(f"its member {member.filename[:60]!r} overlaps another one")
        if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
            raise ValueError(f"its member {member.filename[:60]!r} claims a wrong size")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"its member {member.filename[:60]!r} is packed in a way that is not read")
        if member.file_size > _MOST_TIMES * member.compress_size + _HEADER:
            raise ValueError(f"its member {member.filename[:60]!r} claims a wrong size")
        end = member.header_offset + _LOCAL_HEADER + member.compress_size
    if end > size:
        raise ValueError(f"its members claim {end} bytes, and it has {size}")


def read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """The array of that member, in the byte order of this machine. ValueError if it is not a whole one."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        _check_header(member, size)
    with archive.open(name) as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _check_header(member: Any, size: int) -> None:
    """Raise ValueError unless the array that the header announces is as long as what follows it."""
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(member)
    else:
        raise ValueError(f"its version {version} of numpy's format is not read")
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(side < 0 for side in shape):
        raise ValueError(f"its shape is {shape}")
    claimed, there = math.prod(shape) * dtype.itemsize, size - member.tell()
    if claimed != there:
        raise ValueError(f"its shape {shape} of {dtype} takes {claimed} bytes, and it has {there}")
    # A few bytes in a file could stand for any number of texts of length 0.
    if dtype.itemsize == 0 and math.prod(shape) > 0:
        raise ValueError(f"it holds {math.prod(shape)} values of no bytes")
