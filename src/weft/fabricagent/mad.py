"""Management datagrams (MADs) through libibmad: what the agent reads from the fabric, and the little that it writes.

One client for the lifetime of the agent: a client uses a slot of the simulator and a kernel file, and opening one
takes longer than a request. Calls are serialized by a lock, because libibmad's buffers are shared.
Every call has a time limit (timeout x (retries + 1)); no response is a `MadTimeoutError`, a negative response a
`MadStatusError`: only the second says something about the fabric.

Sources: InfiniBand Architecture Specification 1.4 §14.2.5 (SMP attributes), §15.2.5 (SA records);
§16.1.3.5 (PortCounters).
"""

from __future__ import annotations

import ctypes
import errno
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weft.fabricagent.madbatch import CHUNK, Answer, Pipeline, Question
from weft.fabricagent.madtypes import (
    GET,
    PERFORMANCE,
    QP1_QKEY,
    RPC_VERSION1,
    SA,
    SET,
    SMI,
    SMI_DIRECTED,
    MadError,
    MadStatusError,
    MadTimeoutError,
    PortId,
    Rpc,
)

__all__ = [
    "ERROR_COUNTERS",
    "MadClient",
    "MadError",
    "MadStatusError",
    "MadTimeoutError",
    "PathAnswer",
    "SmInfo",
]

NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE, SM_INFO = 0x11, 0x12, 0x15, 0x16, 0x20
_PATH_RECORD, _PORT_COUNTERS = 0x35, 0x12
_DEFAULT_PREFIX = 0xFE80 << 48
_NO_RECORDS = 3
"""SA status ERR_NO_RECORDS (upper byte of the MAD's status field)."""
_PORT_DOWN, _LINK_UP = 1, 5
"""Values of PortInfo.PortState and PortPhysicalState (§14.2.5.6)."""
KEYS_A_BLOCK = 32
ERROR_COUNTERS = (
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
)
"""The error counters of PortCounters, in their order there."""


@dataclass(frozen=True, slots=True)
class SmInfo:
    """Response to SubnGet(SMInfo): `state` 0 not active, 1 discovering, 2 standby, 3 master (§14.2.5.13)."""

    guid: int
    priority: int
    state: int
    activity: int


@dataclass(frozen=True, slots=True)
class PathAnswer:
    """The subnet administrator's response for a pair: the path's P_Key, or None for "no path"."""

    pkey: int | None


class MadClient:
    """A client of one HCA port.

    Args:
        device: name of the HCA (`mlx5_0`); None: the first active port.
        port: port number; 0: the first active.
        m_key: M_Key for Set, and for Get where the fabric protects reading.
        timeout_ms: timeout of each attempt.
        retries: further attempts.

    Raises:
        MadError: the libraries are missing or the port can't be opened.
    """

    def __init__(
        self,
        device: str | None = None,
        port: int = 0,
        *,
        m_key: int = 0,
        timeout_ms: int = 500,
        retries: int = 2,
    ) -> None:
        try:
            self._lib = ctypes.CDLL("libibmad.so.5", use_errno=True)
        except OSError as error:
            raise MadError(f"libibmad.so.5 can't be loaded ({error}): install libibmad5") from error
        self._lib.mad_rpc_open_port.restype = ctypes.c_void_p
        self._lib.mad_rpc_open_port.argtypes = (
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_int),
            ctypes.c_int,
        )
        self._lib.mad_rpc_close_port.argtypes = (ctypes.c_void_p,)
        self._lib.mad_rpc_set_retries.argtypes = (ctypes.c_void_p, ctypes.c_int)
        self._lib.mad_rpc.restype = ctypes.c_void_p
        self._lib.mad_rpc.argtypes = (
            ctypes.c_void_p,
            ctypes.POINTER(Rpc),
            ctypes.POINTER(PortId),
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        classes = (ctypes.c_int * 4)(SMI, SMI_DIRECTED, SA, PERFORMANCE)
        self._handle: int | None = self._lib.mad_rpc_open_port(
            device.encode() if device else None, port, classes, len(classes)
        )
        if not self._handle:
            raise MadError(
                f"HCA {device or '(first active)'} port {port or '(first active)'} can't be opened for MADs:"
                " check that it is there, and that /dev/infiniband/umad* may be opened"
            )
        self._attempts = retries + 1
        self._m_key = m_key
        self._timeout = timeout_ms
        self._lock = threading.RLock()
        self._pipeline: Pipeline | None = None
        self._buffer = ctypes.create_string_buffer(256)
        self._payload = ctypes.create_string_buffer(256)

    def close(self) -> None:
        """Close the port; idempotent."""
        with self._lock:
            if self._handle:
                self._lib.mad_rpc_close_port(self._handle)
                self._handle = None

    def _rpc(self, rpc: Rpc, to: PortId, payload: bytes, what: str, attempts: int | None = None) -> bytes:
        rpc.mgtclass |= RPC_VERSION1
        rpc.timeout = self._timeout
        with self._lock:
            if not self._handle:
                raise MadError("the MAD client is closed")
            ctypes.memset(self._payload, 0, 256)
            ctypes.memmove(self._payload, payload, len(payload))
            self._lib.mad_rpc_set_retries(self._handle, attempts or self._attempts)
            ctypes.set_errno(0)
            answer = self._lib.mad_rpc(
                self._handle, ctypes.byref(rpc), ctypes.byref(to), self._payload, self._buffer
            )
            if answer:
                return self._buffer.raw[: rpc.datasz]
            code = ctypes.get_errno()
        if rpc.rstatus and code != errno.ETIMEDOUT:
            raise MadStatusError(f"{what}: answered with status 0x{rpc.rstatus:04x}", rpc.rstatus)
        raise MadTimeoutError(f"{what}: no answer")

    def batch(
        self, questions: Sequence[Question], attempts: int | None = None, within: float = 30.0
    ) -> list[Answer]:
        """Answers to many questions in their order, several in flight; others get their turn between chunks.

        Args:
            attempts: for each; None: as for any other request.
            within: seconds after which nothing more is asked.
        """
        found: list[Answer] = []
        silent, end = Counter[int](), time.monotonic() + within
        for first in range(0, len(questions), CHUNK):
            with self._lock:
                if not self._handle:
                    raise MadError("the MAD client is closed")
                if self._pipeline is None:
                    self._pipeline = Pipeline(self._lib, self._handle, self._m_key, self._timeout)
                chunk = questions[first : first + CHUNK]
                found += self._pipeline.ask(chunk, attempts or self._attempts, silent, end)
        return found

    def _smp(self, lid: int, attribute: int, modifier: int, payload: bytes | None, what: str) -> bytes:
        rpc = Rpc(
            mgtclass=SMI if lid else SMI_DIRECTED,
            method=GET if payload is None else SET,
            attr_id=attribute,
            attr_mod=modifier,
            dataoffs=64,
            datasz=64,
            mkey=self._m_key,
        )
        to = PortId(lid=lid)
        if not lid:
            to.drslid = to.drdlid = 0xFFFF
        return self._rpc(rpc, to, payload or b"", what)

    def get(self, lid: int, attribute: int, modifier: int = 0) -> bytes:
        """64 bytes of SubnGet(attribute); LID 0 is the own port, by directed route."""
        return self._smp(lid, attribute, modifier, None, f"SubnGet(0x{attribute:x}) of LID {lid}")

    def node_port(self, lid: int) -> tuple[int, int]:
        """(port GUID, entries of its P_Key table) of the port at that LID (NodeInfo.PortGUID, .PartitionCap)."""
        guid, capacity = struct.unpack_from(">QH", self.get(lid, NODE_INFO), 20)
        return int(guid), int(capacity)

    def enforcement(self, lid: int) -> tuple[int, bool]:
        """(entries of the tables of a switch's external ports, whether it can enforce them) (SwitchInfo)."""
        raw = self.get(lid, SWITCH_INFO)
        return int(struct.unpack_from(">H", raw, 14)[0]), raw[16] & 0xC0 == 0xC0

    def enforces(self, lid: int, port: int) -> bool:
        """Whether partition enforcement is on, in and out, at a switch's port (PortInfo)."""
        return self.get(lid, PORT_INFO, port)[43] & 0x0C == 0x0C

    def is_down(self, lid: int, port: int) -> bool:
        """Whether a switch reports that its port has no link, so that nothing can be behind it
        (PortInfo.PortState is Down, PortPhysicalState isn't LinkUp)."""
        raw = self.get(lid, PORT_INFO, port)
        return raw[32] & 0x0F == _PORT_DOWN and raw[33] >> 4 != _LINK_UP

    def read_block(self, lid: int, block: int, port: int = 0) -> tuple[int, ...]:
        """The 32 entries of one block of P_KeyTable; `port` only for a switch's external port."""
        return struct.unpack(">32H", self.get(lid, P_KEY_TABLE, block | port << 16))

    def read_table(self, lid: int, capacity: int, port: int = 0) -> tuple[int, ...]:
        """All entries of a table, in their places, zeros included."""
        entries: list[int] = []
        for block in range((capacity + KEYS_A_BLOCK - 1) // KEYS_A_BLOCK):
            entries.extend(self.read_block(lid, block, port))
        return tuple(entries[:capacity])

    def write_block(self, lid: int, block: int, entries: tuple[int, ...], port: int = 0) -> None:
        """SubnSet of one block: only to restore what the subnet manager itself reports as set."""
        payload = struct.pack(">32H", *entries)
        self._smp(lid, P_KEY_TABLE, block | port << 16, payload, f"SubnSet(P_KeyTable) of LID {lid}")

    def master_lid(self) -> int:
        """LID of the subnet's master, from the own port (PortInfo.MasterSMLID)."""
        return int(struct.unpack_from(">H", self.get(0, PORT_INFO), 18)[0])

    def own_port(self) -> tuple[int, int]:
        """(port GUID, LID) of the own port."""
        return self.node_port(0)[0], int(struct.unpack_from(">H", self.get(0, PORT_INFO), 16)[0])

    def sm_info(self, lid: int) -> SmInfo:
        """SubnGet(SMInfo); a port without a subnet manager doesn't respond."""
        raw = self.get(lid, SM_INFO)
        guid, _key, activity, state = struct.unpack_from(">QQIB", raw)
        return SmInfo(guid=guid, priority=state >> 4, state=state & 0x0F, activity=activity)

    def _sa(self, attribute: int, mask: int, record: bytes, what: str) -> bytes | None:
        rpc = Rpc(
            mgtclass=SA,
            method=GET,
            attr_id=attribute,
            dataoffs=56,
            datasz=200,
            mask=mask,
        )
        to = PortId(lid=self.master_lid(), qp=1, qkey=QP1_QKEY)
        try:
            return self._rpc(rpc, to, record, what)
        except MadStatusError as error:
            if error.status >> 8 == _NO_RECORDS:
                return None
            raise

    def port_errors(self, lid: int, port: int) -> dict[str, int]:
        """Error counters of a port since they were last reset, by the names that perfquery prints, without zeros.

        They stop at their largest value (255 or 65,535; 15 for the two of four bits). A port is asked once only: not
        every one answers, all are asked again soon, and other requests wait meanwhile.
        """
        rpc = Rpc(mgtclass=PERFORMANCE, method=GET, attr_id=_PORT_COUNTERS, dataoffs=64, datasz=192)
        what = f"PortCounters of port {port} of LID {lid}"
        raw = self._rpc(rpc, PortId(lid=lid, qp=1, qkey=QP1_QKEY), bytes((0, port)), what, attempts=1)
        values = struct.unpack_from(">HBBHHHHBBxBxxH", raw, 4)
        *first, constraint_in, nibbles, dropped = values
        found = zip(
            ERROR_COUNTERS, (*first, constraint_in, nibbles >> 4, nibbles & 0x0F, dropped), strict=True
        )
        return {name: value for name, value in found if value}

    def path(self, source: int, destination: int) -> PathAnswer:
        """SA PathRecord of a pair of port GUIDs, asked from this port (§15.2.5.16)."""
        prefix = int(struct.unpack_from(">Q", self.get(0, PORT_INFO), 8)[0]) or _DEFAULT_PREFIX
        record = struct.pack(">8xQQQQ", prefix, destination, prefix, source)
        mask = 1 << 2 | 1 << 3 | 1 << 12  # DGID, SGID, NumbPath
        record = record.ljust(48, b"\0") + b"\0\x01"
        answer = self._sa(_PATH_RECORD, mask, record, f"PathRecord {source:#018x} to {destination:#018x}")
        return PathAnswer(None if answer is None else int(struct.unpack_from(">H", answer, 50)[0]))
