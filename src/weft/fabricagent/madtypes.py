"""What both ways of asking by management datagrams share: libibmad's structures, and how a request fails.

Sources: rdma-core `libibmad/mad.h` (`ib_portid_t`, `ib_rpc_v1_t`).
"""

from __future__ import annotations

import ctypes

from weft.model.errors import WeftError

SMI, SMI_DIRECTED, SA, PERFORMANCE = 0x01, 0x81, 0x03, 0x04
"""Management classes."""
GET, SET = 1, 2
RPC_VERSION1 = 1 << 8
QP1_QKEY = 0x80010000


class MadError(WeftError):
    """A request to the fabric failed."""


class MadTimeoutError(MadError):
    """No response in time: nothing is known."""


class MadStatusError(MadError):
    """A response with an error status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class PortId(ctypes.Structure):
    _fields_ = (
        ("lid", ctypes.c_int),
        ("drpath_cnt", ctypes.c_int),
        ("drpath", ctypes.c_uint8 * 64),
        ("drslid", ctypes.c_uint16),
        ("drdlid", ctypes.c_uint16),
        ("grh_present", ctypes.c_int),
        ("gid", ctypes.c_uint8 * 16),
        ("qp", ctypes.c_uint32),
        ("qkey", ctypes.c_uint32),
        ("sl", ctypes.c_uint8),
        ("pkey_idx", ctypes.c_uint),
    )


class Rpc(ctypes.Structure):
    _fields_ = (
        ("mgtclass", ctypes.c_int),
        ("method", ctypes.c_int),
        ("attr_id", ctypes.c_uint),
        ("attr_mod", ctypes.c_uint),
        ("rstatus", ctypes.c_uint32),
        ("dataoffs", ctypes.c_int),
        ("datasz", ctypes.c_int),
        ("mkey", ctypes.c_uint64),
        ("trid", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),
        ("recsz", ctypes.c_uint),
        ("timeout", ctypes.c_int),
        ("oui", ctypes.c_uint32),
        ("error", ctypes.c_int),
    )
