# pyright: basic, reportMissingImports=false
"""The machines' BMCs: sushy-tools' Redfish emulator with machines whose power changes at once.

Runs in Ironic's environment: `bmc.py CONFIG SECRET`. The emulator's own driver for machines that don't exist delays
each change of power by up to 11 s. SECRET is a file with name and password of the one account.
"""

import sys
from pathlib import Path

import bcrypt
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
"""Settings as they leave the factory."""
VERSION = "2.14.1"


class Machines(fakedriver.FakeDriver):
    """Machines without any hardware but a power switch, and a BIOS with settings and a version."""

    def set_power_state(self, identity, state):
        if state not in STATES:
            raise NotSupportedError(f"Power state {state} is not supported")
        self._update(identity, power_state=STATES[state])

    def get_bios(self, identity):
        return {**BIOS, **self._get(identity).get("bios", {})}

    def set_bios(self, identity, attributes):
        if unknown := sorted(attributes.keys() - BIOS.keys()):
            raise NotSupportedError(f"BIOS has no setting {', '.join(unknown)}")
        self._update(identity, bios={**self._get(identity).get("bios", {}), **attributes})

    def reset_bios(self, identity):
        self._update(identity, bios={})

    def get_versions(self, identity):
        return {"BiosVersion": VERSION, **self._get(identity).get("versions", {})}

    def set_versions(self, identity, firmware_versions):
        self._update(identity, versions=firmware_versions)


def main():
    config, secret = map(Path, sys.argv[1:])
    name, password = secret.read_text().split()
    emulator.app.config.from_pyfile(config)
    passwords = Path(emulator.app.config["SUSHY_EMULATOR_AUTH_FILE"])
    passwords.touch(0o600)
    passwords.write_text(f"{name}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n")
    fakedriver.FakeDriver = Machines
    Path(emulator.app.config["SUSHY_EMULATOR_STATE_DIR"]).mkdir(parents=True, exist_ok=True)
    emulator.app.configure(config_file=str(config))
    emulator.app.run(
        host=emulator.app.config["SUSHY_EMULATOR_LISTEN_IP"],
        port=emulator.app.config["SUSHY_EMULATOR_LISTEN_PORT"],
    )


main()
