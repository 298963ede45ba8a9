"""A set of ids of messages in little memory: each participant counts its records up from 1."""

import re

_AHEAD = 4096
"""How far beyond the highest number an id still gets a byte: a forged one may have any number."""
_is_number = re.compile("[1-9][0-9]{0,8}").fullmatch


class Ids:
    """A set of ids that takes a byte for each, where a text would take a hundred."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytearray] = {}
        """By participant, for each number whether it is there."""
        self._others: set[str] = set()

    def __contains__(self, id_: str) -> bool:
        """Return whether an id is there."""
        participant, _, number = id_.rpartition(":")
        known = self._bytes.get(participant)
        if known and _is_number(number) and (at := int(number)) < len(known) and known[at]:
            return True
        return id_ in self._others

    def add(self, id_: str) -> None:
        """Add an id."""
        participant, _, number = id_.rpartition(":")
        known = self._bytes.get(participant)
        if known is None:
            known = self._bytes[participant] = bytearray()
        if not _is_number(number) or (at := int(number)) >= len(known) + _AHEAD:
            self._others.add(id_)
            return
        if at >= len(known):
            known.extend(bytes(at + 1 - len(known)))
        known[at] = 1
