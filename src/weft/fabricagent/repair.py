"""Drift: a table on the fabric that differs from what the subnet manager believes it has set.

OpenSM reads a port's table once, when the port comes up, and trusts its memory from then on: no light or heavy
sweep and no SIGHUP repairs a key that someone else wrote. So the agent restores, block by block, what the subnet
manager believes (SA P_KeyTableRecord, its own memory) if that is what the file asks for. If the manager itself
believes something else, nothing is written: it has not swept yet, or has failed, and that is reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.fabricagent.config import AgentConfig
from weft.fabricagent.mad import KEYS_A_BLOCK, MadError
from weft.fabricagent.wire import TableReading, Wire
from weft.model.agentapi import RepairQuery, RepairResult
from weft.model.errors import UnknownError
from weft.model.ids import FULL_MEMBER, format_guid

_EMPTY = (0,) * KEYS_A_BLOCK
_KEY = re.compile(r"0x([0-9a-f]{4})\b")


class Repairer:
    """Writes to ports' tables what the subnet manager believes is there."""

    def __init__(self, wire: Wire, config: AgentConfig) -> None:
        self._wire, self._config = wire, config

    def repair(self, query: RepairQuery, expected: Mapping[int, frozenset[int]]) -> RepairResult:
        """Repair the given host ports with their leaf ports, and remove keys from vacant leaf ports."""
        written, problems = 0, list[str]()
        for reading in self._wire.read(query.port_guids) if query.port_guids else []:
            try:
                written += self._port(reading, expected.get(reading.port_guid, frozenset()))
            except (MadError, UnknownError) as error:
                problems.append(f"port {format_guid(reading.port_guid)}: {error}")
        if query.vacant_keys:
            try:
                written += self._clean_vacant(frozenset(query.vacant_keys))
            except (MadError, UnknownError) as error:
                problems.append(f"vacant leaf ports: {error}")
        return RepairResult(written=written, problems=tuple(problems))

    def _port(self, reading: TableReading, expected: frozenset[int]) -> int:
        at = reading.at
        if reading.unreachable or at is None:
            raise UnknownError("read its table", "the wire", reading.unreachable)
        written = 0
        if reading.keys != expected:
            written += self._table(reading.host, expected, at.lid, at.port, 0)
        if reading.leaf is not None and reading.leaf_keys != expected:
            lid = self._wire.switch_lid(at.peer_guid)
            # OpenSM packs a leaf's table and writes only as many blocks as it then needs (osm_pkey_mgr.c,
            # `pkey_mgr_update_peer_port`): when keys are removed, later blocks keep their contents forever.
            used = -(-len(expected) // KEYS_A_BLOCK)
            written += self._table(reading.leaf, expected, lid, at.peer_port, at.peer_port, used)
        return written

    def _table(
        self,
        wire: tuple[int, ...],
        expected: frozenset[int],
        lid: int,
        port: int,
        modifier: int,
        blocks_used: int | None = None,
    ) -> int:
        """Write the blocks that differ from what the manager believes; blocks from `blocks_used` on must be empty."""
        blocks = range((len(wire) + KEYS_A_BLOCK - 1) // KEYS_A_BLOCK)
        used = len(blocks) if blocks_used is None else blocks_used
        right = {b: self._believed(lid, port, b) if b < used else _EMPTY for b in blocks}
        if frozenset(k for keys in right.values() for k in keys if k) != expected:
            raise UnknownError(
                "repair it",
                "the subnet manager",
                "its table differs from what its file asks for",
                "send it SIGHUP, or see its log",
            )
        written = 0
        for block, keys in right.items():
            seen = wire[block * KEYS_A_BLOCK : (block + 1) * KEYS_A_BLOCK]
            if keys[: len(seen)] != seen:
                self._wire.client.write_block(lid, block, keys, modifier)
                written += 1
        return written

    def _believed(self, lid: int, port: int, block: int) -> tuple[int, ...]:
        """A block as the subnet manager remembers it; read by `saquery`, since libibmad can't send the required
        SM_Key."""
        text = self._wire.finder.run(
            self._config.tools.saquery,
            "--smkey",
            str(self._config.hca.sa_key),
            "PKTR",
            f"{lid}/{port}/{block}",
        )
        keys = tuple(int(k, 16) for k in _KEY.findall(text.partition("PKey Table:")[2]))
        if len(keys) != KEYS_A_BLOCK:
            raise UnknownError(
                "ask for a P_KeyTableRecord",
                "the subnet administrator",
                f"{len(keys)} keys in the answer",
                "set hca.sa_key to sa_key of opensm.conf",
            )
        return keys

    def _clean_vacant(self, pkeys: frozenset[int]) -> int:
        """Remove the keys from leaf ports that their leaf reports down (see `Wire.vacant`); returns how many blocks
        were written."""
        written = 0
        for _, lid, port, entries in self._wire.vacant(wait=True)[0]:
            for block in range((len(entries) + KEYS_A_BLOCK - 1) // KEYS_A_BLOCK):
                old = entries[block * KEYS_A_BLOCK : (block + 1) * KEYS_A_BLOCK]
                new = tuple(0 if k & ~FULL_MEMBER in pkeys else k for k in old)
                if new != old:
                    padded = (*new, *(0 for _ in range(KEYS_A_BLOCK - len(new))))
                    self._wire.client.write_block(lid, block, padded, port)
                    written += 1
        return written
