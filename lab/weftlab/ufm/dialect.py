"""UFM's answers differ by version; where they aren't published, they can be chosen.

Sources: UFM Enterprise REST API, SDK and release notes 6.10 to 6.24; what users of real ones report (6.11.1, 6.19.0,
6.19.1, 6.21.0). A field that is None depends on the version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one UFM answers.

    Attributes:
        version: as `/app/ufm_version` gives it.
        unknown_pkey: asked for a P_Key that isn't there: 200 with `{}`, or 404. Both are seen.
        unknown_guid: 6.11.1 takes a GUID that the fabric doesn't have (seen); a mock of others refuses with 404.
        put_empty: an empty list of GUIDs: documents name all four.
        schema_error: status for a field that isn't in the schema.
        duplicate: status for an added GUID that is a member already.
        changes: a change of P_Keys is done when it is answered (seen), or a job that is to be followed.
        created: status of a POST or PUT that succeeded.
        login: answer to a wrong password at /dologin: an empty cookie (seen by a client), or 401.
        expired: answer to an expired session: 401, a redirect to the login page, or that page with 200.
        long_keys: keys of the listing as they were given (`0x0005`), not shortened.
        bad_value: status for an invalid P_Key or GUID.
        user_ext: partitions of `partitions.conf.user_ext`, which UFM did not make: listed, or not.
        licence: once it is over, nothing is refused, or changes, or everything, with 403.
        cookie: name of a session's.
        most_guids: most GUIDs in one call; None: any number.
        too_many: status for more than that, or `cut`: 200, and the first ones become members.
        most_pkeys: most partitions; another one is refused.
        index0_twice: a GUID whose table has another P_Key at index 0: both are kept as they were given, the change is
            refused, or the new one takes the place.
        ip_over_ib: another value than the partition has: it is set, refused, or stays as it was, with 200.
    """

    version: str = "6.19.1-5"
    unknown_pkey: Literal["empty", "404"] = "empty"
    unknown_guid: Literal["accept", "404"] = "accept"
    put_empty: Literal[200, 400, 403, 404] = 400
    schema_error: Literal[400, 500] = 400
    duplicate: Literal[200, 409] = 200
    changes: Literal["done", "job"] = "done"
    created: Literal[200, 201] = 200
    login: Literal["empty cookie", "401"] = "empty cookie"
    expired: Literal["401", "redirect", "page"] = "401"
    long_keys: bool = False
    bad_value: Literal[400, 500] = 400
    user_ext: Literal["hidden", "listed"] = "hidden"
    licence: Literal["valid", "changes", "everything"] = "valid"
    cookie: str = "session"
    most_guids: int | None = None
    too_many: Literal["400", "413", "500", "cut"] = "400"
    most_pkeys: int | None = None
    index0_twice: Literal["accept", "409", "moves"] = "accept"
    ip_over_ib: Literal["set", "409", "stays"] = "set"

    def since(self, *version: int) -> bool:
        """Whether it is of that version or a later one."""
        found = _VERSION.match(self.version)
        own = tuple(int(p or 0) for p in found.groups()) if found else (0, 0, 0)
        return own[: len(version)] >= version

    @property
    def has_add(self) -> bool:
        """POST /resources/pkeys/add."""
        return self.since(6, 16)

    @property
    def tells_default_membership(self) -> bool:
        """`membership` of 0x7fff in the listing with `guids_data`."""
        return self.since(6, 19)

    @property
    def new_alarms(self) -> bool:
        """Whether alarms have the form of 6.17."""
        return self.since(6, 17)

    @property
    def has_roles(self) -> bool:
        """Whether users have roles, from 6.14 on."""
        return self.since(6, 14)
