"""The provider's files, made from a checkout's own lists of steps and checks; no file of the suite is copied here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SUITES = (
    "iam",
    "control-plane",
    "image-registry",
    "network",
    "security",
    "observability",
    "storage",
    "vm",
    "bare_metal",
)
_NO_CAPABILITY = frozenset({"vm", "bare_metal"})
"""Suites that refuse `--capability`, since they have only one."""
OVERRIDES: dict[str, dict[str, dict[str, Any]]] = {
    "network": {
        "SubnetConfigCheck": {"require_multi_az": False},
        "VpcIpConfigCheck": {"auto_assign_ip_mode": "instance"},
    }
}
"""Parameters of checks for a site whose networks have no availability zones, by suite and check."""
VERSION = "0.11.0"
"""Version of the suite with which the committed table was made."""
FALSE_PASSES = {
    "StorageProviderApiCheck": "passes without a storage provider's manifest",
    "StorageDirectoryQuotaEnforcementCheck": "passes without a storage provider's manifest",
}
"""Checks of the suite that pass when nothing is there, and how: never counted as passed."""
NO_INSTANCE = "refers to an instance that isn't launched; without one it ends in an error"
_STABLE = {
    "vm": ("VmIdentifierStableAfterStartCheck", "VmIdentifierStableAfterRebootCheck"),
    "bare_metal": (
        "BmIdentifierStableAfterStartCheck",
        "BmIdentifierStableAfterRebootCheck",
        "BmIdentifierStableAfterPowerCycleCheck",
        "BmIdentifierStableAfterReinstallCheck",
    ),
}
NOT_READ = {
    "BmMemorySanitizationCheck": "the machine's cleaning is read for its disks, not for its memory",
    "BmGpuMemorySanitizationCheck": "the machine's cleaning is read for its disks, not for its GPUs",
    "BmFirmwareResetCheck": "the machine's cleaning is read for its disks, not for its firmware",
    "SkipSanitizationBreakfixCheck": "weft never gives a machine back without cleaning",
    "SerialConsoleRetentionCheck": "Ironic's consoles keep no log",
    "DirectoryFilesystemQuotaCheck": "the lab's filer has no quotas",
    "DirectoryUsageAccountingCheck": "the lab's filer doesn't account for users",
}
"""Checks without evidence of their own, and why: their step reports nothing that they would check."""
NO_LOGIN = "logs in to a server, and the suite launches none"
NO_GPU = "wants GPUs, which the lab's servers don't have"
WANTS = {
    **dict.fromkeys(("VmCpuInfoCheck", "BmCpuInfoCheck"), "wants NVIDIA's devices on the PCI bus"),
    "BmHostSoftwareCheck": "wants NVIDIA's driver",
    **dict.fromkeys(
        ("VmCloudInitCheck", "BmCloudInitCheck"),
        "wants a metadata service: the lab's servers have config drives",
    ),
    "DhcpIpManagementCheck": "wants a DHCP client: the lab's servers have their addresses from config drives",
}
"""Checks that log in and look for something that servers of the lab don't have, and why."""
OS = "debian"
"""ID in /etc/os-release of the lab's servers, whose images are made of Debian's packages."""
LATER = frozenset({("bare_metal", "query_sanitization")})
"""Steps moved to the teardown: they release the server to which checks of the test phase log in."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a suite.

    Attributes:
        step: whose output it reads.
    """

    suite: str
    name: str
    id: str
    step: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the suites."""

    folder: Path

    @property
    def configs(self) -> Path:
        """Folder of the suites' lists of steps and checks."""
        return self.folder / "isvctl" / "configs"

    @property
    def version(self) -> str:
        """The suite's version; empty if the checkout doesn't say."""
        file = self.folder / "isvtest" / "pyproject.toml"
        found = tomllib.loads(file.read_text()) if file.exists() else {}
        return str(found.get("project", {}).get("version", ""))

    def checks(self, suite: str) -> list[Check]:
        """The suite's checks, in its order."""
        document = yaml.safe_load((self.configs / "suites" / f"{suite}.yaml").read_text())
        return list(_checks(suite, document["tests"]["validations"]))

    def groups(self, suite: str) -> dict[str, dict[str, Any]]:
        """Group of checks -> name -> parameters, as the suite has them."""
        document = yaml.safe_load((self.configs / "suites" / f"{suite}.yaml").read_text())
        groups = document["tests"]["validations"]
        return {name: group.get("checks") or {} for name, group in groups.items()}

    def steps(self, suite: str) -> tuple[str, list[dict[str, str]]]:
        """The suite's key for commands, and its steps with their phases: those of the example provider, and those
        of checks."""
        file = self.configs / "providers" / "my-isv" / "config" / f"{suite}.yaml"
        ((key, commands),) = yaml.safe_load(file.read_text())["commands"].items()
        found = [{"name": one["name"], "phase": one["phase"]} for one in commands["steps"]]
        names = {one["name"] for one in found}
        missing = [one.step for one in self.checks(suite) if one.step and one.step not in names]
        more = [{"name": name, "phase": "test"} for name in dict.fromkeys(missing)]
        listed = [*(one for one in found if one["phase"] != "teardown"), *more]
        listed = [one | {"phase": "teardown"} if (suite, one["name"]) in LATER else one for one in listed]
        listed += [one for one in found if one["phase"] == "teardown"]
        return key, sorted(listed, key=lambda one: one["phase"] == "teardown")


def _checks(suite: str, groups: dict[str, Any]) -> Iterator[Check]:
    for group in groups.values():
        for name, given in (group.get("checks") or {}).items():
            one = given or {}
            labels = tuple(one.get("labels") or ())
            yield Check(
                suite, name, str(one.get("test_id", "")), one.get("step") or group.get("step") or "", labels
            )


def excluded(checkout: Checkout, suite: str, launches: bool) -> dict[str, str]:
    """Checks that aren't run, and why. Args: launches: whether the suite launches an instance."""
    names = {one.name for one in checkout.checks(suite)}
    found = {name: why for name, why in NOT_READ.items() if name in names}
    if not launches:
        found |= dict.fromkeys(_STABLE.get(suite, ()), NO_INSTANCE)
    for one in checkout.checks(suite):
        if "ssh" in one.labels:
            why = WANTS.get(one.name) or (NO_GPU if "gpu" in one.labels else "" if launches else NO_LOGIN)
            found |= {one.name: why} if why else {}
    return found


def _expecting(given: dict[str, Any]) -> dict[str, Any]:
    """A check's parameters with the operating system of the lab's servers; empty if it doesn't expect one."""
    if "expected_os" in given:
        return {"expected_os": OS}
    parts = given.get("compose") or []
    named = [part for part in parts if isinstance(part, dict)]
    if not any("expected_os" in (params or {}) for part in named for params in part.values()):
        return {}

    def with_os(params: dict[str, Any] | None) -> dict[str, Any] | None:
        return params | {"expected_os": OS} if params and "expected_os" in params else params

    changed = [{k: with_os(v) for k, v in part.items()} if isinstance(part, dict) else part for part in parts]
    return {"compose": changed}


def configuration(
    checkout: Checkout, suite: str, command: Path, socket: Path, launches: bool
) -> dict[str, Any]:
    """A provider's file for a suite, in which each step is the helper's client."""
    key, steps = checkout.steps(suite)
    more = {"command": str(command), "timeout": 290, "continue_on_failure": True, "output_schema": "generic"}
    listed = [{**one, **more, "args": [str(socket), suite, one["name"]]} for one in steps]
    phases = [phase for phase in ("setup", "test", "teardown") if any(one["phase"] == phase for one in steps)]
    tests: dict[str, Any] = {"cluster_name": "weft", "settings": {"region": "RegionOne"}}
    if names := sorted(excluded(checkout, suite, launches)):
        tests["exclude"] = {"labels": [], "tests": names}
    validations: dict[str, Any] = {}
    for group, listed_checks in checkout.groups(suite).items():
        for name, given in listed_checks.items():
            if values := OVERRIDES.get(suite, {}).get(name) or _expecting(given or {}):
                validations.setdefault(group, {"checks": {}})["checks"][name] = values
    if validations:
        tests["validations"] = validations
    return {
        "import": [str(checkout.configs / "suites" / f"{suite}.yaml")],
        "version": "1.0",
        "commands": {key: {"phases": phases, "steps": listed}},
        "tests": tests,
    }


def arguments(suite: str, file: Path) -> list[str]:
    """Arguments of `isvctl` for a suite's file."""
    capability = [] if suite in _NO_CAPABILITY else ["--capability", "vm"]
    return ["test", "run", "-f", str(file), *capability, "--no-upload", "--no-user-config"]
