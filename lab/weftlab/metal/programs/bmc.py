# pyright: basic, reportMissingImports=false
"""The machines' BMCs: sushy-tools' Redfish emulator with machines whose power changes at once.

Runs in Ironic's environment: `bmc.py CONFIG SECRET`. The emulator's own driver for machines that don't exist delays
each change of power by up to 11 s. SECRET is a file with name and password of the one account. CONFIG is the
emulator's; if it has WEFTLAB_BOOT, a folder for each of these, the machines boot: `space` (file with the path of the
network namespace with their cables), `disks`, `serial` (sockets of their serial ports), `consoles` (what they said
there), and `images`, where Ironic puts virtual media, which this program serves to the BMCs by HTTP below /images.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bcrypt
import flask
from machine import DISK_BYTES, command
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.resources.systems import fakedriver
from sushy_tools.error import NotSupportedError

STATES = {
    "On": "On",
    "ForceOn": "On",
    "ForceOff": "Off",
    "GracefulShutdown": "Off",
    "GracefulRestart": "On",
    "ForceRestart": "On",
}


BIOS = {
    "BootMode": "Uefi",
    "ProcTurboMode": "Enabled",
    "SecureBootStatus": "Enabled",
    "SriovGlobalEnable": "Enabled",
}
"""BIOS settings as machines leave the factory."""
VERSION = "2.14.1"


class Machines(fakedriver.FakeDriver):
    """Machines without any hardware but a power switch, and a BIOS with settings and a version."""

    def set_power_state(self, identity, state):
        """Switch the machine at once. Raises `NotSupportedError` for an unknown state."""
        if state not in STATES:
            raise NotSupportedError(f"Power state {state} is not supported")
        self._update(identity, power_state=STATES[state])

    def get_bios(self, identity):
        """Settings with their values, those never changed by default."""
        return {**BIOS, **self._get(identity).get("bios", {})}

    def set_bios(self, identity, attributes):
        """Change some settings; raises `NotSupportedError` for unknown names."""
        if unknown := sorted(attributes.keys() - BIOS.keys()):
            raise NotSupportedError(f"BIOS has no setting {', '.join(unknown)}")
        self._update(identity, bios={**self._get(identity).get("bios", {}), **attributes})

    def reset_bios(self, identity):
        """Set all settings to their defaults."""
        self._update(identity, bios={})

    def get_versions(self, identity):
        """Firmware component -> version."""
        return {"BiosVersion": VERSION, **self._get(identity).get("versions", {})}

    def set_versions(self, identity, firmware_versions):
        """Replace the versions of all components."""
        self._update(identity, versions=firmware_versions)


POWER = ThreadPoolExecutor(1)
"""A thread that never ends: the kernel ends a machine once the thread that started it is gone."""
RUNNING = {}
"""Machine -> its QEMU."""


class BootingMachines(Machines):
    """Machines that run while they are on. Their systems ignore a power button's event: it switches them off."""

    def get_power_state(self, identity):
        """`On` while its QEMU runs."""
        return "On" if self._runs(self._get(identity)) else "Off"

    def set_power_state(self, identity, state):
        """Start or end its QEMU; raises `NotSupportedError` for an unknown state."""
        if state not in STATES:
            raise NotSupportedError(f"Power state {state} is not supported")
        POWER.submit(self._power, self._get(identity), state).result()

    @staticmethod
    def _runs(system):
        process = RUNNING.get(system["uuid"])
        return process is not None and process.poll() is None

    def _power(self, system, state):
        if self._runs(system) and (STATES[state] == "Off" or "Restart" in state):
            RUNNING[system["uuid"]].kill()
            RUNNING[system["uuid"]].wait()
        if STATES[state] == "On" and not self._runs(system):
            RUNNING[system["uuid"]] = self._begun(system)

    def _begun(self, system):
        where = {name: Path(path) for name, path in self._config["WEFTLAB_BOOT"].items()}
        disk = where["disks"] / system["uuid"] / "disk"
        disk.parent.mkdir(parents=True, exist_ok=True)
        if not disk.exists():
            with disk.open("wb") as file:
                file.truncate(DISK_BYTES)
        media = {name: given[0] for name, given in (system.get("boot_image") or {}).items() if given[0]}
        name, device = system["name"], system.get("boot_device", "Hdd")
        serial = where["serial"] / f"{name}.sock", where["consoles"] / f"machine-{name}.log"
        own = command(name, system["nics"][0]["mac"], disk, media, device, *serial)
        space = where["space"].read_text().strip()
        return subprocess.Popen(["nsenter", f"--net={space}", "setpriv", "--pdeathsig", "KILL", *own])


def serve_images(folder):
    """Serve virtual media to the BMCs, as Ironic's web server does, without an account."""
    guarded, everybody = emulator.app.wsgi_app, flask.Flask("images")

    @everybody.route("/images/<path:name>")
    def image(name):
        return flask.send_from_directory(folder, name)

    def either(env, start):
        return (everybody if env["PATH_INFO"].startswith("/images/") else guarded)(env, start)

    emulator.app.wsgi_app = either


def main():
    """Serve Redfish for all machines over HTTPS."""
    config, secret = map(Path, sys.argv[1:])
    name, password = secret.read_text().split()
    emulator.app.config.from_pyfile(config)
    boot = emulator.app.config.get("WEFTLAB_BOOT")
    passwords = Path(emulator.app.config["SUSHY_EMULATOR_AUTH_FILE"])
    passwords.touch(0o600)
    passwords.write_text(f"{name}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n")
    fakedriver.FakeDriver = BootingMachines if boot else Machines
    Path(emulator.app.config["SUSHY_EMULATOR_STATE_DIR"]).mkdir(parents=True, exist_ok=True)
    emulator.app.configure(config_file=str(config))
    if boot:
        serve_images(boot["images"])
    emulator.app.run(
        host=emulator.app.config["SUSHY_EMULATOR_LISTEN_IP"],
        port=emulator.app.config["SUSHY_EMULATOR_LISTEN_PORT"],
    )


main()
