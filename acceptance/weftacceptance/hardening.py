"""The step about virtual devices of a server, from its domain in libvirt."""

from __future__ import annotations

from xml.etree import ElementTree

from weftacceptance.cloud import Json, LostError
from weftacceptance.servers import launched, servers
from weftacceptance.steps import Run, Tests, step

_USB = ("./devices/hostdev[@type='usb']", "./devices/redirdev", "./devices/input[@bus='usb']")
_CLIPBOARD = (
    "./devices/graphics",
    "./devices/channel[@type='spicevmc']",
    "./devices/channel[@type='qemu-vdagent']",
)
_NEEDLESS = (
    "sound",
    "audio[@type!='none']",
    "smartcard",
    "parallel",
    "tpm",
    "watchdog",
    "filesystem",
    "shmem",
)


@step("virtual_device_hardening", "vm")
def virtual_device_hardening(run: Run) -> Json:
    """The running domain has no USB, no graphics with a clipboard, and no device that a server doesn't need."""
    kept, tests = launched(run), Tests()
    if servers(run).find(kept["id"]) is None:
        raise LostError("Nova doesn't have the server")
    domain = ElementTree.fromstring(run.lab.domain(kept["id"]))
    if domain.findtext("uuid") != kept["id"] or domain.find("./devices/interface") is None:
        raise LostError("libvirt describes another domain")

    def there(paths: tuple[str, ...]) -> list[str]:
        return [one.tag for path in paths for one in domain.findall(path)]

    controllers = [
        one for one in domain.findall("./devices/controller[@type='usb']") if one.get("model") != "none"
    ]
    usb = [*there(_USB), *(one.tag for one in controllers)]
    tests.add("usb_devices_disabled", not usb, f"USB: {', '.join(usb) or 'nothing'}")
    clipboard = there(_CLIPBOARD)
    tests.add("clipboard_disabled", not clipboard, f"screens and channels: {', '.join(clipboard) or 'none'}")
    more = there(tuple(f"./devices/{name}" for name in _NEEDLESS))
    floppies = domain.findall("./devices/disk[@device='floppy']")
    more += [f"{one.tag} {one.get('device')}" for one in floppies]
    tests.add("unnecessary_virtual_devices_absent", not more, f"further devices: {', '.join(more) or 'none'}")
    return {"instance_id": kept["id"], "tests": tests}
