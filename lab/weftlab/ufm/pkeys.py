"""The P_Key API: /resources/pkeys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from weftlab.ufm.dialect import Dialect
from weftlab.ufm.faults import Faults
from weftlab.ufm.messages import Refused, Request
from weftlab.ufm.state import MANAGEMENT, Member, Pkey, State

T = TypeVar("T")
SET_FIELDS = frozenset({"pkey", "guids", "membership", "memberships", "ip_over_ib", "index0"})
ADD_FIELDS = frozenset(
    {"pkey", "partition_name", "index0", "ip_over_ib", "mtu_limit", "service_level", "rate_limit"}
)
QOS_FIELDS = frozenset({"pkey", "mtu_limit", "service_level", "rate_limit"})


USER_EXT, STORAGE = 0x3001, "000000000000c0de"
"""A partition that an operator wrote into partitions.conf.user_ext, and its member."""


def number(text: object, allow_management: bool = False) -> int:
    """The P_Key that was given. Raises `Refused`."""
    try:
        value = int(str(text), 16)
    except ValueError:
        value = -1
    if value == MANAGEMENT and allow_management:
        return value
    if not 0 < value < MANAGEMENT:
        raise Refused(400, f"Invalid PKey {text}: must be between 0x1 and 0x7ffe")
    return value


def guid(text: object) -> str:
    """16 lower hex digits. Raises `Refused`."""
    plain = str(text).lower().removeprefix("0x").replace(":", "")
    if not 0 < len(plain) <= 16 or not set(plain) <= set("0123456789abcdef") or not int(plain, 16):
        raise Refused(400, f"Invalid GUID {text}")
    return plain.zfill(16)


class Pkeys:
    """Answers about a state, and what a change makes of it. Knows no job and no subnet manager."""

    def __init__(self, dialect: Dialect, faults: Faults, default_membership: str) -> None:
        self._dialect, self._faults, self._default = dialect, faults, default_membership

    # -- reading -----------------------------------------------------------------------------------------------

    def listing(self, state: State, query: Mapping[str, str]) -> object:
        """All P_Keys; 0x7fff is always there."""
        guids, qos = query.get("guids_data") == "true", query.get("qos_conf") == "true"
        keys = sorted(state.pkeys)
        if self._dialect.user_ext == "listed":
            state = state.copy()
            state.pkeys.setdefault(USER_EXT, Pkey("user_ext", guids={STORAGE: Member()}))
            keys = sorted(state.pkeys)
        if not self._faults.without_default:
            keys.append(MANAGEMENT)
        if not guids and not qos:
            return [self._key(k, state) for k in keys]
        both = guids and qos  # GUIDs are left out then: seen on 6.19.0-1 and 6.21.0-8
        return {self._key(k, state): self._one(k, state, guids and not both, qos) for k in keys}

    def single(self, text: str, state: State, query: Mapping[str, str]) -> object:
        """A P_Key with its members; an unknown one as the dialect answers it."""
        key = number(text, allow_management=True)
        if key != MANAGEMENT and key not in state.pkeys:
            if self._dialect.unknown_pkey == "404":
                raise Refused(404, f"PKey {text} not found")
            return {}
        return self._one(key, state, query.get("guids_data") == "true", query.get("qos_conf") == "true")

    def _key(self, key: int, state: State) -> str:
        given = state.pkeys[key].given if key in state.pkeys else ""
        return given if given and self._dialect.long_keys else f"0x{key:x}"

    def _one(self, key: int, state: State, guids: bool, qos: bool) -> dict[str, Any]:
        if key == MANAGEMENT:
            found: dict[str, Any] = {"partition": "management", "ip_over_ib": True}
            if guids:
                found["guids"] = []
                if self._dialect.tells_default_membership:
                    found |= {"membership": self._default, "index0": True}
        else:
            pkey = state.pkeys[key]
            found = {"partition": pkey.name, "ip_over_ib": pkey.ip_over_ib}
            if guids:
                found["guids"] = [
                    {"guid": g, "membership": m.membership, "index0": m.index0} for g, m in pkey.guids.items()
                ]
            if qos:
                found["qos_conf"] = pkey.qos
        return {k: v for k, v in found.items() if k not in self._faults.drop_gets}

    # -- changing ----------------------------------------------------------------------------------------------

    def add(self, request: Request, state: State, known: Collection[str]) -> None:
        """POST: adds GUIDs, and creates the P_Key on demand. `memberships` is silently ignored (seen on 6.19.1)."""
        body = self._body(request, SET_FIELDS)
        key = self._checked(body.get("pkey"), number)
        members = self._members(body, known, each=False)
        there = state.pkeys.get(key)
        if self._dialect.duplicate == 409 and there is not None and there.guids.keys() & members.keys():
            raise Refused(409, "GUID is already a member")
        self._first_of(key, members, state)
        self._made(key, body, state).guids.update(members)

    def put(self, request: Request, state: State, known: Collection[str]) -> None:
        """PUT: the whole list; members that stay are not disturbed."""
        body = self._body(request, SET_FIELDS)
        key = self._checked(body.get("pkey"), number)
        if not body.get("guids"):
            if self._dialect.put_empty != 200:
                raise Refused(self._dialect.put_empty, "guids: an empty list")
            state.pkeys.pop(key, None)
            return
        members = self._members(body, known, each=True)
        self._first_of(key, members, state)
        self._made(key, body, state).guids = members

    def add_empty(self, request: Request, state: State) -> None:
        """POST /add, from 6.16 on."""
        body = self._body(
            request, ADD_FIELDS if self._dialect.since(6, 22) else ADD_FIELDS - {"partition_name"}
        )
        key = self._checked(body.get("pkey"), number)
        if key in state.pkeys:
            raise Refused(409, f"PKey {body['pkey']} already exists")
        self._made(key, body, state).name = str(body.get("partition_name") or f"api_pkey_0x{key:x}")

    def set_qos(self, request: Request, state: State) -> None:
        """Takes effect after a restart of UFM; only what GET says of it is imitated."""
        body = self._body(request, QOS_FIELDS)
        key = self._checked(body.get("pkey"), number)
        if key not in state.pkeys:
            raise Refused(404, f"PKey {body.get('pkey')} not found")
        state.pkeys[key].qos.update({k: v for k, v in body.items() if k != "pkey"})

    def remove(self, text: str, state: State) -> None:
        """Remove a P_Key. Raises `Refused` (404) if there is none."""
        if state.pkeys.pop(number(text), None) is None:
            raise Refused(404, f"PKey {text} not found")

    def remove_guids(self, text: str, guids: str, state: State) -> None:
        """A GUID that isn't a member is ignored; removal of the last member deletes the P_Key (seen)."""
        key, gone = number(text), {guid(g) for g in guids.split(",") if g}
        pkey = state.pkeys.get(key)
        if pkey is None:
            raise Refused(404, f"PKey {text} not found")
        pkey.guids = {g: m for g, m in pkey.guids.items() if g not in gone}
        if not pkey.guids:
            del state.pkeys[key]

    def _made(self, key: int, body: Mapping[str, Any], state: State) -> Pkey:
        wanted, pkey = bool(body.get("ip_over_ib", True)), state.pkeys.get(key)
        if pkey is None:
            most = self._dialect.most_pkeys
            if most is not None and len(state.pkeys) >= most:
                raise Refused(400, f"PKey {body['pkey']}: there are {most} already")
            pkey = state.pkeys[key] = Pkey(f"api_pkey_0x{key:x}", wanted, given=str(body["pkey"]).lower())
        elif pkey.ip_over_ib != wanted and self._dialect.ip_over_ib == "409":
            raise Refused(409, f"PKey {body['pkey']}: ip_over_ib is {str(pkey.ip_over_ib).lower()}")
        if self._dialect.ip_over_ib == "set":
            pkey.ip_over_ib = wanted
        return pkey

    def _first_of(self, key: int, members: Mapping[str, Member], state: State) -> None:
        """Apply the dialect's `index0_twice`, since a port's table has only one entry at index 0."""
        for other, pkey in state.pkeys.items():
            twice = [g for g, m in members.items() if m.index0 and g in pkey.guids and pkey.guids[g].index0]
            if other == key or not twice or self._dialect.index0_twice == "accept":
                continue
            if self._dialect.index0_twice == "409":
                raise Refused(409, f"GUID {twice[0]} has PKey 0x{other:x} at index 0")
            for one in twice:
                pkey.guids[one] = Member(pkey.guids[one].membership, index0=False)

    def _body(self, request: Request, fields: frozenset[str]) -> dict[str, Any]:
        body = request.json()
        if not isinstance(body, dict):
            raise Refused(400, "Bad request: a JSON object is expected")
        if more := sorted(set(body) - fields):
            said = f"additionalProperties: '{more[0]}' was unexpected"
            raise Refused(self._dialect.schema_error, said)
        return body

    def _checked(self, text: object, read: Callable[[object], T]) -> T:
        """`number` or `guid`, with the status that this request answers to an invalid one."""
        try:
            return read(text)
        except Refused as error:
            raise Refused(self._dialect.bad_value, error.text) from error

    def _members(self, body: Mapping[str, Any], known: Collection[str], each: bool) -> dict[str, Member]:
        given, one = body.get("guids"), body.get("membership", "full")
        if not isinstance(given, list) or not given:
            raise Refused(400, "guids: a list of GUIDs is expected")
        if one not in ("full", "limited"):
            raise Refused(400, f"membership: {one!r} is not one of full, limited")
        words = body.get("memberships")
        if each and words is not None:
            if "membership" in body:
                raise Refused(400, "membership and memberships exclude each other")
            if not isinstance(words, list) or len(words) != len(given) or set(words) - {"full", "limited"}:
                raise Refused(400, "memberships: one full or limited for each GUID")
        else:
            words = [one] * len(given)
        guids = [self._checked(g, guid) for g in given]
        if self._dialect.unknown_guid == "404" and (strange := [g for g in guids if g not in known]):
            raise Refused(404, f"GUID {strange[0]} not found")
        most, index0 = self._dialect.most_guids, bool(body.get("index0", False))
        if most is not None and len(guids) > most and self._dialect.too_many != "cut":
            raise Refused(int(self._dialect.too_many), f"guids: at most {most} in one call")
        return {g: Member(w, index0) for g, w in list(zip(guids, words, strict=True))[:most]}
