"""cloud-init of an IPU pod's virtual machines: the V-IPU controller's, and the Poplar servers'.

Keys are placeholders `${weft:NAME}`: the cloud's driver substitutes them when it creates the server, so that no plan,
row or log of weft contains them. (cloud-init: "Cloud config data", modules write_files and runcmd; "MIME multi-part "
    "archive".)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.podkeys import TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY, place
from weft.model.site import ADMIN_PORT, METRICS_PORT, USER_PORT, IpuMachine
from weft.planning.shapes.userdata import CLOUD_CONFIG, NOVA_LIMIT, archive, sent_size

ADMIN_KEY, AGENT_KEY, TENANT_KEY = "vipu-admin-key", "vipu-agent-key", "vipu-tenant-key"
"""Names of a pod's keys: the controller's administrator, the controller to its agents, the tenant's user."""
TENANT_USER = "tenant"

_FOLDER, _STATE = "/etc/openvipu", "/var/lib/openvipu/state.sqlite"
_TLS, _AGENTS_CA = f"{_FOLDER}/tls", f"{_FOLDER}/agents-ca.crt"

_UNIT = """\
[Unit]
Description=V-IPU controller of pod {pod}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=openvipu-server --state {state} --user-address {gateway}:{user_port} \
--plain-user-address {management}:{user_port} \
--admin-address {gateway}:{admin_port} --metrics-address {gateway}:{metrics_port} \
--tls {tls} --no-client-certificates {agents}
Restart=always

[Install]
WantedBy=multi-user.target
"""


def controller_id(pod_id: str) -> str:
    """The controller's id for agents; leftovers are found by it."""
    return f"weft-{pod_id}"


@dataclass(frozen=True, slots=True)
class ControllerAddresses:
    """A controller's addresses: on the gateways' network, and on the vPOD's management network."""

    gateway: str
    management: str


def _unit(pod: str, legs: ControllerAddresses, agents_have_tls: bool) -> str:
    """The controller's systemd unit."""
    return _UNIT.format(
        pod=pod,
        state=_STATE,
        management=legs.management,
        tls=_TLS,
        agents=f"--agents-ca {_AGENTS_CA}" if agents_have_tls else "--agents-without-tls",
        user_port=USER_PORT,
        gateway=legs.gateway,
        admin_port=ADMIN_PORT,
        metrics_port=METRICS_PORT,
    )


def controller_init(
    pod_id: str,
    pod: str,
    legs: ControllerAddresses,
    machines: Sequence[IpuMachine],
    topology: str,
    agents_ca: str | None,
) -> str:
    """User data of the controller's virtual machine.

    On the gateways' network all APIs use TLS, with a certificate of the pod's own CA; the admin API is available only
    there. On the tenant's own management network the user API has no TLS: Poplar doesn't support it. `openvipu-server
    --init` runs once (an existing state file is left alone), `vipu-admin apply` may be repeated.

    Args:
        machines: in the order of the cables.
        topology: mesh, or torus if they are a whole ring.
        agents_ca: PEM of the agents' CA; None: they have no TLS.
    """
    client = {"api-host": legs.gateway, "admin-port": str(ADMIN_PORT), "api-user-id": "admin"}
    unit = _unit(pod, legs, agents_ca is not None)
    files = {
        f"{_FOLDER}/admin.key": place(ADMIN_KEY) + "\n",
        f"{_FOLDER}/agents.key": place(AGENT_KEY) + "\n",
        f"{_FOLDER}/order.json": json.dumps(_controller_objects(pod, machines, topology), indent=1) + "\n",
        f"{_FOLDER}/vipu-cli.hcl": _hcl({**client, "api-access-key": place(ADMIN_KEY)}),
    }
    if agents_ca is not None:
        files[_AGENTS_CA] = agents_ca
    certificates = {"ca.crt": TLS_AUTHORITY, "controller.crt": TLS_CERTIFICATE, "controller.key": TLS_KEY}
    config = {
        "write_files": [
            *(_file(path, text) for path, text in files.items()),
            *(
                {**_file(f"{_TLS}/{path}", place(name)), "encoding": "b64"}
                for path, name in certificates.items()
            ),
            _file("/etc/systemd/system/openvipu.service", unit, mode="0644"),
        ],
        "runcmd": _controller_commands(pod_id),
    }
    return _cloud_config(config)


def _controller_objects(pod: str, machines: Sequence[IpuMachine], topology: str) -> dict[str, object]:
    """What `vipu-admin apply` creates."""
    ids = [m.name for m in machines]
    return {
        "agents": [{"id": m.name, "host": str(m.gw_address), "port": m.agent_port} for m in machines],
        "clusters": [{"id": pod, "topology": topology, "agents": ids}],
        "allocations": [{"id": pod, "cluster": pod, "agents": ids}],
        "users": [{"id": TENANT_USER, "allocations": [pod], "access_key": place(TENANT_KEY)}],
    }


def _controller_commands(pod_id: str) -> list[list[str]]:
    keys = ["--admin-key-file", f"{_FOLDER}/admin.key", "--agent-key-file", f"{_FOLDER}/agents.key"]
    init = ["openvipu-server", "--init", "--secure", "--state", _STATE]
    client = ["vipu-admin", "--config", f"{_FOLDER}/vipu-cli.hcl", "--tls", _TLS]
    return [
        ["mkdir", "-p", "/var/lib/openvipu"],
        [*init, "--controller-id", controller_id(pod_id), *keys],
        ["systemctl", "enable", "--now", "openvipu.service"],
        [*client, "apply", f"{_FOLDER}/order.json", "--wait", "600"],
    ]


def poplar_init(pod: str, controller: str, own: str | None) -> str:
    """User data of a Poplar server's virtual machine: the controller's address, and the tenant's credentials.

    Args:
        controller: the controller's address on the vPOD's management network.
        own: the order's own user data; ours is merged into it.

    Raises `InputError` if both together exceed Nova's limit.
    """
    client = {
        "api-host": controller,
        "api-port": str(USER_PORT),
        "api-user-id": TENANT_USER,
        "api-access-key": place(TENANT_KEY),
    }
    shell = "".join(
        f"export {name}={value}\n"
        for name, value in (
            ("IPUOF_VIPU_API_HOST", controller),
            ("IPUOF_VIPU_API_PORT", USER_PORT),
            ("IPUOF_VIPU_API_PARTITION_ID", pod),
            ("VIPU_CLI_API_HOST", controller),
        )
    )
    # cloud-init writes files before it creates users: the administrators' group already exists.
    files = [
        _file("/etc/vipu/vipu-cli.hcl", _hcl(client), mode="0640", owner="root:adm"),
        _file("/etc/profile.d/vipu.sh", shell, mode="0644"),
    ]
    ours = _cloud_config({"write_files": files})
    if own is None:
        return ours
    text = archive(own, ours, CLOUD_CONFIG)
    if sent_size(text) > NOVA_LIMIT:
        most = NOVA_LIMIT - sent_size(text) + len(own.encode())
        allowed = instead(
            "at most {most} bytes besides what a Poplar server needs; it has {encode}",
            most=most,
            encode=len(own.encode()),
        )
        raise InputError("access.user_data", "…", allowed)
    return text


def _file(path: str, content: str, mode: str = "0600", owner: str = "root:root") -> dict[str, str]:
    return {"path": path, "owner": owner, "permissions": mode, "content": content}


def _hcl(values: dict[str, str]) -> str:
    return "".join(f'{name}="{value}"\n' for name, value in values.items())


def _cloud_config(config: Mapping[str, object]) -> str:
    # JSON is YAML, without any quoting rules to guess.
    return "#cloud-config\n" + json.dumps(config, indent=1) + "\n"
