"""A switch with SSH only: a shell with `ovs-vsctl`, as in networking-generic-switch's own tests."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED

USER, PASSWORD = "weft", "only the switch knows"


class _Door(paramiko.ServerInterface):
    def __init__(self) -> None:
        self.shell = threading.Event()

    def check_auth_password(self, username: str, password: str) -> int:
        right = (username, password) == (USER, PASSWORD)
        return AUTH_SUCCESSFUL if right else AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "password"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_pty_request(
        self,
        channel: paramiko.Channel,
        term: bytes,
        width: int,
        height: int,
        pixelwidth: int,
        pixelheight: int,
        modes: bytes,
    ) -> bool:
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        self.shell.set()
        return True


class SshSwitch:
    """Accepts sessions until `close`; `known_hosts` has its key.

    Attributes:
        sessions: how many there were.
        refuse: sessions end before the shell answers.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        # a login has no administrator's rights until `sudo -s`
        root = {"BASH_FUNC_sudo%%": "() { PS1='switch# ' bash --norc --noprofile -i; }"}
        self._environment = {
            "PATH": os.environ["PATH"],
            "PS1": "switch$ ",
            "TERM": "dumb",
            **root,
            **environment,
        }
        self._key = paramiko.ECDSAKey.generate()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.known_hosts = folder / "known_hosts"
        line = f"[127.0.0.1]:{self.port} {self._key.get_name()} {self._key.get_base64()}\n"
        self.known_hosts.write_text(line)
        self.sessions, self.refuse = 0, False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        door, transport = _Door(), paramiko.Transport(connection)
        try:
            transport.add_server_key(self._key)
            transport.start_server(server=door)
            channel = transport.accept(20)
            if channel is None or not door.shell.wait(20) or self.refuse:
                return
            self.sessions += 1
            self._shell(channel)
        except (paramiko.SSHException, EOFError, OSError):
            pass
        finally:
            transport.close()

    def _shell(self, channel: paramiko.Channel) -> None:
        mine, its = pty.openpty()
        argv = ["/bin/bash", "--norc", "--noprofile", "-i"]
        shell = subprocess.Popen(
            argv, stdin=its, stdout=its, stderr=its, env=self._environment, start_new_session=True
        )
        os.close(its)
        try:
            while True:
                ready, _, _ = select.select([channel, mine], [], [])
                if channel in ready:
                    typed = channel.recv(65536)
                    if not typed:
                        return
                    os.write(mine, typed)
                if mine in ready:
                    channel.sendall(os.read(mine, 65536))
        except OSError:
            pass  # shell or channel has ended
        finally:
            shell.kill()
            shell.wait()
            os.close(mine)
            channel.close()
