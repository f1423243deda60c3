"""Many management datagrams at once: several are in flight, so that a reading doesn't wait for each answer in turn.

They go through the port of `weft.fabricagent.mad`, which holds its lock for one chunk at a time.
Sources: rdma-core `libibmad/rpc.c` (`_do_madrpc`), `libibumad/umad.h`.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack_into, unpack_from

from weft.fabricagent.madtypes import (
    GET,
    PERFORMANCE,
    QP1_QKEY,
    SMI,
    MadError,
    MadStatusError,
    MadTimeoutError,
    PortId,
    Rpc,
)

IN_FLIGHT = 8
"""Requests at a time: half of OpenSM's own `max_wire_smps` as advised, and fewer than the simulator's sockets hold."""
CHUNK = 128
"""Requests of one chunk; between chunks, other callers get their turn."""
SILENCES = 3
"""Time-outs in a row after which a LID isn't asked any more: each one costs time that other LIDs need."""
_MAD = 256
_DATA = 64
"""Offset of the attribute in a MAD, the same in both classes."""
_STATUS, _TRANSACTION, _ATTRIBUTE, _MODIFIER = 4, 8, 16, 20
"""Offsets in a MAD. The upper half of a transaction id is the kernel's (IBA 1.4 §13.4.3; Linux `user_mad.c`)."""
_LID = 28
"""Offset of the LID in umad's header (`struct ib_user_mad_hdr`); the status is at 4."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request to read an attribute of the port at a LID.

    Attributes:
        modifier: attribute modifier of subnet management.
        port: of performance management, the port that is selected; None: it is subnet management.
    """

    lid: int
    attribute: int
    modifier: int = 0
    port: int | None = None

    def __str__(self) -> str:
        if self.port is None:
            return f"SubnGet(0x{self.attribute:x}) of LID {self.lid}"
        return f"PerfMgtGet(0x{self.attribute:x}) of port {self.port} of LID {self.lid}"


Answer = bytes | MadError
"""The attribute (64 bytes of subnet management, 192 of performance management), or why there is none."""


class Pipeline:
    """Requests through an open port of libibmad. Not thread-safe: its client's lock is held.

    Args:
        lib: libibmad, which brings libibumad.
        handle: of the open port, registered for both classes.
        timeout_ms: of each attempt.
    """

    def __init__(self, lib: ctypes.CDLL, handle: int, m_key: int, timeout_ms: int) -> None:
        self._lib, self._m_key, self._timeout = lib, m_key, timeout_ms
        pointer, number = ctypes.c_void_p, ctypes.c_int
        lib.umad_size.restype = ctypes.c_size_t
        lib.umad_send.argtypes = (number, number, pointer, number, number, number)
        lib.umad_recv.argtypes = (number, pointer, pointer, number)
        lib.mad_build_pkt.argtypes = (pointer, ctypes.POINTER(Rpc), ctypes.POINTER(PortId), pointer, pointer)
        lib.mad_rpc_portid.argtypes = (pointer,)
        lib.mad_rpc_class_agent.argtypes = (pointer, number)
        self._port = int(lib.mad_rpc_portid(handle))
        self._agents = {c: int(lib.mad_rpc_class_agent(handle, c)) for c in (SMI, PERFORMANCE)}
        self._header = int(lib.umad_size())
        self._buffer = ctypes.create_string_buffer(self._header + _MAD)
        self._length = ctypes.c_int(_MAD)
        self._length_at = ctypes.byref(self._length)
        self._packets: dict[tuple[int, bool], ctypes.Array[ctypes.c_char]] = {}
        self._number = int(time.monotonic() * 1000) & 0x3FFFFFFF

    def ask(
        self, questions: Sequence[Question], attempts: int, silent: Counter[int], end: float
    ) -> list[Answer]:
        """The answers in the order of the questions; each is asked again after a time-out, `attempts` times in all.

        Args:
            silent: LID -> time-outs in a row; a LID with `SILENCES` of them isn't asked any more.
            end: monotonic time after which nothing more is asked.
        """
        found: list[Answer] = [MadTimeoutError(f"{q}: no answer") for q in questions]
        left = list(range(len(questions)))
        for _ in range(attempts):
            left = self._attempt(questions, left, found, silent, end)
            if not left:
                break
        return found

    def _attempt(
        self,
        questions: Sequence[Question],
        asked: Sequence[int],
        found: list[Answer],
        silent: Counter[int],
        end: float,
    ) -> list[int]:
        """Send the questions with these indexes once. Returns the indexes that got no answer."""
        waiting, failed = deque(asked), list[int]()
        flying: dict[int, tuple[int, float]] = {}
        while waiting or flying:
            while waiting and len(flying) < IN_FLIGHT:
                index, now = waiting.popleft(), time.monotonic()
                if silent[questions[index].lid] >= SILENCES or now > end:
                    continue  # its result remains the time-out
                self._number = (self._number + 1) & 0x7FFFFFFF or 1
                self._send(questions[index], self._number)
                flying[self._number] = index, now + self._timeout / 1000
            if not flying:
                break
            # In the order in which they were sent: the first one is the first to be late.
            answer = self._receive(next(iter(flying.values()))[1] - time.monotonic())
            late: list[int] = []
            if answer is None or answer[0] not in flying:
                now = time.monotonic()
                late = [number for number, (_, until) in flying.items() if until <= now]
            else:
                number, status, raw = answer
                if not status:
                    index, _ = flying.pop(number)
                    found[index] = _judged(questions[index], raw)
                    silent[questions[index].lid] = 0
                    continue
                late = [number]  # the kernel's word that there was no answer
            for number in late:
                index, _ = flying.pop(number)
                failed.append(index)
                silent[questions[index].lid] += 1
        return failed

    def _send(self, question: Question, number: int) -> None:
        kind = question.attribute, question.port is None
        packet = self._packets.get(kind)
        if packet is None:
            packet = self._packets[kind] = self._packet(question)
        pack_into(">H", packet, _LID, question.lid)
        pack_into(">Q", packet, self._header + _TRANSACTION, number)
        if question.port is None:
            pack_into(">I", packet, self._header + _MODIFIER, question.modifier)
        else:
            packet[self._header + _DATA + 1] = question.port
        agent = self._agents[SMI if question.port is None else PERFORMANCE]
        if self._lib.umad_send(self._port, agent, packet, _MAD, self._timeout, 0) < 0:
            raise MadError(f"{question}: it can't be sent")

    def _packet(self, question: Question) -> ctypes.Array[ctypes.c_char]:
        """Template of a request for this attribute, into which LID, transaction, modifier and port are then written."""
        subnet = question.port is None
        rpc = Rpc(
            mgtclass=SMI if subnet else PERFORMANCE,
            method=GET,
            attr_id=question.attribute,
            dataoffs=_DATA,
            datasz=64 if subnet else 192,
            mkey=self._m_key if subnet else 0,
            trid=1,
        )
        to = PortId(lid=1) if subnet else PortId(lid=1, qp=1, qkey=QP1_QKEY)
        packet, payload = ctypes.create_string_buffer(self._header + _MAD), ctypes.create_string_buffer(_MAD)
        if self._lib.mad_build_pkt(packet, ctypes.byref(rpc), ctypes.byref(to), None, payload) < 0:
            raise MadError(f"{question}: it can't be made")
        return packet

    def _receive(self, seconds: float) -> tuple[int, int, bytes] | None:
        """(transaction, umad's status, MAD) of the next answer; None: there is none in time."""
        self._length.value = _MAD
        wait = max(0, int(seconds * 1000))
        if self._lib.umad_recv(self._port, self._buffer, self._length_at, wait) < 0:
            return None
        raw = self._buffer.raw
        [number] = unpack_from(">I", raw, self._header + _TRANSACTION + 4)
        [status] = unpack_from("=I", raw, 4)
        return number, status, raw[self._header :]


def _judged(question: Question, raw: bytes) -> Answer:
    [status] = unpack_from(">H", raw, _STATUS)
    [attribute] = unpack_from(">H", raw, _ATTRIBUTE)
    if status & 0x7FFF:
        return MadStatusError(f"{question}: answered with status 0x{status:04x}", status)
    if attribute != question.attribute:
        return MadError(f"{question}: answered with attribute 0x{attribute:x}")
    return raw[_DATA : _DATA + (64 if question.port is None else 192)]
