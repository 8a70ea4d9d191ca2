"""Sizes in bytes, as integers or as text such as ``"2GiB"``."""

from __future__ import annotations

import re

from goagnes._arguments import index, shown
from goagnes._errors import UsageError

_UNITS = {"": 1, "B": 1}
for _power, _prefix in enumerate("KMGT", start=1):
    _UNITS[f"{_prefix}B".upper()] = 1000**_power
    _UNITS[_prefix] = 1024**_power
    _UNITS[f"{_prefix}IB".upper()] = 1024**_power

_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_size(name: str, value: int | str) -> int:
    """The bytes that ``value`` means: an integer, or a number with a unit.

    The rule is the shell's, and tests/sizes.json holds both to it: decimal digits, with
    a fraction or an exponent (1.5, 1e9), then B, KiB or K, MiB or M, GiB or G, TiB or T
    (powers of 1024), KB, MB, GB, TB (powers of 1000), in any case, or nothing: bytes.

    Raises UsageError, naming the argument, for anything else, and for less than one byte.
    """
    if isinstance(value, str):
        match = _TEXT.fullmatch(value)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise UsageError(f'{name}={shown(value)} is not a size; write bytes or a text such as "512MiB" or "2GiB"')
        number = match[1]
        if len(number) > 40:
            raise UsageError(f"{name}={value[:40]!r}… is out of range")
        product = int(number) * unit if number.isdigit() else float(number) * unit
        size = int(min(product, 1 << 62))
    else:
        given = index(value)
        if given is None:
            raise UsageError(f'{name}={shown(value)} is not a size; write bytes or a text such as "2GiB"')
        size = given
    if size < 1 or size >= 1 << 62:
        raise UsageError(f"{name}={shown(value)} is out of range")
    return size
