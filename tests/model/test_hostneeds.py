"""What images and flavors require of hosts, read as Nova reads it."""

from __future__ import annotations

import pytest

from weft.model.hostneeds import HostNeeds, too_small

IMAGE = {"name": "x", "trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden", "hw_architecture": "amd64"}
FLAVOR = {
    "trait:CUSTOM_C": "required",
    "trait:CUSTOM_D": "forbidden",
    "trait1:CUSTOM_E": "required",
    "hw:x": "1",
}


def test_image_properties_and_extra_specs_are_combined() -> None:
    """Nova ignores traits that an image forbids; numbered groups are about devices."""
    needs = HostNeeds.of(IMAGE, FLAVOR)
    assert needs.required == {"CUSTOM_A", "CUSTOM_C"}
    assert needs.forbidden == {"CUSTOM_D"}
    assert needs.architecture == "x86_64"


def test_no_requirements_give_empty_needs() -> None:
    """Hosts needn't be asked then."""
    assert not HostNeeds.of({"min_ram": 5, "os_distro": "ubuntu"}, {"pci_passthrough:alias": "h100:8"})
    assert HostNeeds.of({"architecture": "aarch64"}, {})


@pytest.mark.parametrize(
    ("traits", "architecture", "reason"),
    [
        ({"CUSTOM_A", "CUSTOM_C"}, "x86_64", None),
        ({"CUSTOM_A", "CUSTOM_C"}, "", None),
        ({"CUSTOM_C"}, "x86_64", "its host lacks the trait CUSTOM_A that the image or flavor requires"),
        (
            {"CUSTOM_A", "CUSTOM_C", "CUSTOM_D"},
            "x86_64",
            "its host has the trait CUSTOM_D that the flavor forbids",
        ),
        ({"CUSTOM_A", "CUSTOM_C"}, "arm64", "its host is aarch64, but the image is for x86_64"),
    ],
)
def test_unsuitable_host_has_one_reason(traits: set[str], architecture: str, reason: str | None) -> None:
    """Missing traits come first, then forbidden ones, then the architecture; an unknown architecture is accepted."""
    assert HostNeeds.of(IMAGE, FLAVOR).lacks(traits, architecture) == reason


def test_x86_64_host_runs_i686_images() -> None:
    """As Nova's libvirt driver reports; not vice versa."""
    assert HostNeeds.of({"hw_architecture": "i386"}, {}).lacks((), "x86_64") is None
    assert HostNeeds.of({"hw_architecture": "x86_64"}, {}).lacks((), "i686") is not None


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ({"min_ram": 2048, "min_disk": 10, "size": 10 << 30}, None),
        ({"min_ram": 2049}, "it needs 2049 MiB of RAM (min_ram), and flavor f has 2048"),
        ({"min_disk": 11}, "it needs 11 GiB of disk (min_disk), and flavor f has 10"),
        ({"size": (10 << 30) + (1 << 20)}, "it has 10241 MiB, and flavor f has 10 GiB of disk"),
        ({"min_ram": None, "size": None}, None),
    ],
)
def test_too_small_flavor_is_reported(image: dict[str, object], reason: str | None) -> None:
    """Nova's three checks; a flavor without a disk of its own isn't checked for disks."""
    assert too_small(image, "f", 2048, 10) == reason
    if "min_ram" not in (reason or ""):
        assert too_small(image, "f", 2048, 0) is None
