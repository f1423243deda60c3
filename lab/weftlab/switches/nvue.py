"""An imitated Cumulus Linux switch behind NVUE's REST API: revisions with their states, a tree that is patched.

By NVIDIA's documents: a revision is `pending`, `apply`, then `applied` or `invalid` with the reason in `transition`;
`null` in a patch removes; a bridged interface without a list of VLANs carries every VLAN of the bridge. One with a
list carries exactly those in it, whether the bridge has them or not: in ifupdown2's addon `bridge`, by which Cumulus
Linux sets ports, a port's `bridge-vids` and `bridge-access` stand in the place of the bridge's. Where the package
`nvueschema` is installed, each patch is checked by the schema of the version that the switch claims.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from weft.drivers.switches.vlans import from_ranges
from weftlab.switches.bridge import Vlans
from weftlab.switches.front import PARKING, Answer, Front

BRIDGE = "br_default"
VERSION = "5.9"
Tree = dict[str, Any]


class Nvue(Front):
    """Attributes: on_the_way: state of a revision while it is applied; real ones go through several."""

    commits_later = True
    on_the_way = "apply"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._revisions: dict[str, dict[str, Any]] = {}
        self._patches: dict[str, list[Tree]] = {}
        self._applying: dict[str, tuple[float, Tree]] = {}
        self._number = 1
        self._applied = "applied"
        self._check = schema_check(VERSION)
        super().__init__(*arguments, **named)

    def factory(self) -> Tree:
        interfaces: Tree = {}
        for name, number in self.plan.by_name().items():
            kind = "bond" if name.startswith("bond") else "swp"
            interfaces[name] = {"type": kind}
            if number in self._links:
                # An empty list would be every VLAN.
                mine = {"untagged": "none", "vlan": {str(PARKING): {}}}
                interfaces[name]["bridge"] = {"domain": {BRIDGE: mine}}
        for lag, link in self.plan.members().items():
            interfaces[link] = {"type": "swp"}
            interfaces[lag]["bond"] = {"member": {link: {}}}
        return {
            "bridge": {"domain": {BRIDGE: {"untagged": 1, "vlan": {}}}},
            "interface": interfaces,
        }

    def forwarding(self) -> Mapping[int, Vlans]:
        bridge = self.running["bridge"]["domain"][BRIDGE]
        all_of = frozenset(n for key in bridge.get("vlan", {}) for n in from_ranges(key))
        found: dict[int, Vlans] = {}
        for name, number in self.plan.by_name().items():
            domains = self.running["interface"].get(name, {}).get("bridge", {}).get("domain", {})
            found[number] = _vlans(domains[BRIDGE], bridge, all_of) if BRIDGE in domains else Vlans()
        return found

    def claim(self, version: str) -> None:
        """Claim another version, such as 5.18, whose schema checks the patches from now on."""
        self._check = schema_check(version)

    def forget_sessions(self) -> None:
        self._revisions.clear()
        self._patches.clear()
        self._applying.clear()

    def unauthorised(self) -> Answer:
        """401 as NVUE answers it."""
        return Answer(
            401, {"title": "Unauthorized", "status": 401}, {"WWW-Authenticate": 'Basic realm="NVUE"'}
        )

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        if not path.startswith("/nvue_v1"):
            return Answer(404, {"title": "Not Found", "status": 404})
        self._go_on()
        parts = [unquote(p) for p in path.removeprefix("/nvue_v1").split("/") if p]
        if parts[:1] == ["revision"]:
            return self._revision(method, parts[1:], body)
        if method == "GET":
            return self._get(parts, query.get("rev", "operational"))
        return self._change(method, parts, query.get("rev", ""), body)

    def _revision(self, method: str, parts: list[str], body: Any) -> Answer:
        if method == "POST" and not parts:
            self._number += 1
            name = str(self._number)
            self._revisions[name] = _state("pending")
            self._patches[name] = []
            return Answer(200, {name: self._revisions[name]})
        if method == "GET" and not parts:
            return Answer(200, {**self._revisions, "applied": _state("applied")})
        name = parts[0]
        if name == "applied":
            if method == "PATCH" and (body or {}).get("state") == "save":
                self._applied = "applied_and_saved" if self.save() else "save_error"
                return Answer(200, _state("save"))
            return Answer(200, _state(self._applied, "no space left on device"))
        if name not in self._revisions:
            return _missing(f"revision {name}")
        if method == "PATCH" and (body or {}).get("state") == "apply":
            self._apply(name, (body.get("auto-prompt") or {}).get("ays") == "ays_yes")
        elif method == "PATCH":
            return Answer(400, {"title": "Bad Request", "detail": "state: 'apply' or 'save'", "status": 400})
        return Answer(200, self._revisions[name])

    def _apply(self, name: str, sure: bool) -> None:
        """Apply a revision; it ends after the answer: clients poll it. Args: sure: the question was answered."""
        if not sure:
            self._revisions[name] = _state("ays_fail", "the question whether to go on was not answered")
            return
        candidate = deepcopy(self.running)
        for patch in self._patches[name]:
            _merge(candidate, patch)
        if self.faults.fail_after is not None:
            self.faults.fail_after = None
            self._revisions[name] = _state("invalid", "ifreload failed on a part of the configuration")
        elif why := self._wrong(candidate):
            self._revisions[name] = _state("invalid", why)
        else:
            self._revisions[name] = _state(self.on_the_way)
            self._applying[name] = (time.monotonic() + self.faults.slow_commit, candidate)
            self._go_on()

    def _go_on(self) -> None:
        """Commit the revisions whose time is over."""
        for name, (when, candidate) in list(self._applying.items()):
            if time.monotonic() >= when:
                del self._applying[name]
                self.take(candidate)
                self._revisions[name] = _state("applied")
                self._applied = "applied"

    def finish(self) -> None:
        """Finish at once the revision that is being applied."""
        with self.lock:
            self._applying = {name: (0.0, candidate) for name, (_, candidate) in self._applying.items()}
            self._go_on()

    def _wrong(self, tree: Tree) -> str:
        """Faults of a configuration that NVUE finds only when it applies; empty: none."""
        unknown = sorted(tree.get("interface", {}).keys() - self._there())
        if unknown:
            return f"interface {unknown[0]} does not exist"
        for name, row in tree.get("interface", {}).items():
            mine = (row.get("bridge") or {}).get("domain", {}).get(BRIDGE) or {}
            if "access" in mine and ("vlan" in mine or "untagged" in mine):
                return f"interface {name}: access and vlan or untagged can not be set together"
        return ""

    def _there(self) -> set[str]:
        return {*self.plan.by_name(), *self.plan.members().values()}

    def _get(self, parts: list[str], rev: str) -> Answer:
        if rev not in ("applied", "operational", "startup"):
            return (
                _missing(f"revision {rev}") if rev not in self._revisions else Answer(200, self._draft(rev))
            )
        if len(parts) == 4 and parts[0] == "interface" and parts[2:] == ["lldp", "neighbor"]:
            return self._neighbour(parts[1])
        if len(parts) == 4 and parts[0] == "interface" and parts[2:] == ["link", "stats"]:
            return self._stats(parts[1])
        if len(parts) == 5 and parts[0] == "interface" and parts[2:] == ["qos", "roce", "counters"]:
            return self._roce(parts[1])
        tree: Any = self.saved if rev == "startup" else self.reading()
        if rev == "operational":  # every interface is there, configured or not
            rows = {n: {} for n in self._there()} | tree["interface"]
            tree = tree | {"interface": {n: {**row, "link": self._link(n)} for n, row in rows.items()}}
        for part in parts:
            if not isinstance(tree, dict) or part not in tree:
                return _missing("/".join(parts))
            tree = tree[part]
        return Answer(200, tree)

    def _link(self, port: str) -> Tree:
        admin = "down" if port in self.disabled else "up"
        return {"admin-status": admin, "oper-status": "down" if port in self.unplugged else admin}

    def _stats(self, port: str) -> Answer:
        if port not in (counted := self.statistics()):
            return _missing(f"interface/{port}")
        kinds = {"bytes": "bytes", "pkts": "packets", "errors": "errors", "drops": "dropped"}
        stats = {
            f"{way}-{name}": counted[port][f"{key}_{what}"]
            for way, key in (("in", "rx"), ("out", "tx"))
            for name, what in kinds.items()
        }
        return Answer(200, {"carrier-transitions": 2, **stats})

    def _roce(self, port: str) -> Answer:
        """Counters of RoCE of a port, only where RoCE is configured."""
        if port not in self.roce:
            return _missing(f"interface/{port}/qos/roce/counters")
        received, sent, marked = self.roce[port]
        pauses = {"pause-duration": 0, "pause-packets": sent}
        tx = {"tx-ecn-stats": {"ecn-marked-packets": marked}, "tx-pfc-stats": pauses}
        return Answer(
            200, {"rx-stats": {"rx-pfc-stats": {**pauses, "pause-packets": received}}, "tx-stats": tx}
        )

    def _neighbour(self, port: str) -> Answer:
        if port not in self.heard:
            return _missing(f"interface/{port}/lldp/neighbor")
        device, far = self.heard[port]
        kind = "mac" if far.count(":") == 5 else "ifname"
        return Answer(
            200, {device: {"chassis": {"system-name": device}, "port": {"name": far, "type": kind}}}
        )

    def _draft(self, rev: str) -> Tree:
        tree = deepcopy(self.running)
        for patch in self._patches[rev]:
            _merge(tree, patch)
        return tree

    def _change(self, method: str, parts: list[str], rev: str, body: Any) -> Answer:
        if rev not in self._revisions:
            return _missing(f"revision {rev}")
        if self._revisions[rev]["state"] != "pending":
            said = f"revision {rev} is {self._revisions[rev]['state']}"
            return Answer(409, {"title": "Conflict", "detail": said, "status": 409})
        patch: Any = body if method == "PATCH" else None
        for part in reversed(parts):
            patch = {part: patch}
        if not isinstance(patch, dict):
            return Answer(400, {"title": "Bad Request", "detail": "an object", "status": 400})
        if why := self._check(patch):
            return Answer(400, {"title": "Bad Request", "detail": why, "status": 400})
        self._patches[rev].append(patch)
        return Answer(200, body or {})


def _vlans(mine: Tree, bridge: Tree, all_of: frozenset[int]) -> Vlans:
    if "access" in mine:
        return Vlans(bridge["untagged"] if mine["access"] == "auto" else mine["access"])
    untagged = mine.get("untagged", "auto")
    native = bridge.get("untagged", 1) if untagged == "auto" else None if untagged == "none" else untagged
    listed = mine.get("vlan") or {}
    tagged = all_of if not listed or "all" in listed else _listed(listed)
    return Vlans(native, tagged - {native})


def _listed(listed: Tree) -> frozenset[int]:
    return frozenset(n for key in listed for n in from_ranges(key))


def _merge(tree: Tree, patch: Tree) -> None:
    """RFC 7396, except that an empty object makes an entry."""
    for key, value in patch.items():
        if value is None:
            tree.pop(key, None)
        elif isinstance(value, dict):
            inner = tree.setdefault(key, {})
            _merge(inner, value)
        else:
            tree[key] = value


def _state(state: str, issue: str = "") -> dict[str, Any]:
    issues = {"0": {"code": "config_invalid", "message": issue, "severity": "error"}} if issue else {}
    failed = state in ("invalid", "ays_fail", "save_error")
    return {"state": state, "transition": {"issue": issues if failed else {}, "progress": ""}}


def _missing(what: str) -> Answer:
    return Answer(404, {"title": "Not Found", "detail": f"{what} was not found", "status": 404})


def schema_check(version: str) -> Callable[[Tree], str]:
    """A function that says what in a patch NVUE's own schema doesn't take; empty: nothing. Needs `nvueschema`."""
    name = "nvueschema.models.v" + version.replace(".", "_")
    try:
        model = importlib.import_module(name).NvueConfig
    except ImportError:
        return lambda patch: ""

    def check(patch: Tree) -> str:
        without = _without_nulls(patch)
        try:
            read = model.model_validate(without)
        except ValueError as error:
            return str(error).replace("\n", " ")[:500]
        # The models ignore fields that they don't know: what doesn't come out again was one.
        out = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return _lost(without, out)

    return check


def _without_nulls(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    return {k: _without_nulls(v) for k, v in tree.items() if v is not None}


def _lost(given: Any, kept: Any, path: str = "") -> str:
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(kept, dict) or key not in kept:
                return f"{path}/{key}: no such field"
            if found := _lost(value, kept[key], f"{path}/{key}"):
                return found
    return ""
