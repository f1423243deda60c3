"""`nvidia-smi -q -x` in the forms of several drivers and boards, with the members that weft-check reads.

The names of members follow the captures of seven boards in NVIDIA/k8s-test-infra (drivers 570, 580, 595), and the
DTDs of older drivers (450 to 550).
"""

from __future__ import annotations

from collections.abc import Sequence

from weftlab.hostfolder import GPUS

ROWS = "<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>"
HEALTH = (
    "<health><summary>Healthy</summary><bandwidth>Full</bandwidth>"
    "<route_recovery_in_progress>False</route_recovery_in_progress><route_unhealthy>False</route_unhealthy>"
    "<access_timeout_recovery>False</access_timeout_recovery>"
    "<incorrect_configuration>None</incorrect_configuration></health>"
)
_ECC = (
    "<volatile><sram_correctable>3</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>"
    "<sram_uncorrectable_secded>0</sram_uncorrectable_secded><dram_correctable>0</dram_correctable>"
    "<dram_uncorrectable>0</dram_uncorrectable></volatile>"
    "<aggregate><dram_uncorrectable>2</dram_uncorrectable><sram_threshold_exceeded>No</sram_threshold_exceeded>"
    "</aggregate>"
)
_REASONS = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
)


def _reasons(word: str) -> str:
    inner = "".join(f"<clocks_{word}_reason_{n}>Not Active</clocks_{word}_reason_{n}>" for n in _REASONS)
    return f"<clocks_{word}_reasons>{inner}</clocks_{word}_reasons>"


_RESET = (
    "<gpu_reset_status><reset_required>{0}</reset_required>"
    "<drain_and_reset_recommended>{0}</drain_and_reset_recommended></gpu_reset_status>"
)
_ACTION = "<gpu_recovery_action>None</gpu_recovery_action>"
_NO_PAGES = "<retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>"
_NO_FABRIC = "<fabric><state>N/A</state><status>N/A</status></fabric>"
BOARDS = {
    "V100, driver 450": (
        "450.80.02",
        "<ecc_errors><volatile><single_bit><total>0</total></single_bit><double_bit><total>0</total></double_bit>"
        "</volatile></ecc_errors>"
        "<retired_pages><pending_blacklist>No</pending_blacklist></retired_pages>"
        + _reasons("throttle")
        + _RESET.format("No"),
    ),
    "A100, driver 550": (
        "550.163.01",
        f"<ecc_errors>{_ECC}</ecc_errors>{_NO_PAGES}<remapped_rows>{ROWS}</remapped_rows>{_NO_FABRIC}"
        + _reasons("event")
        + _RESET.format("No"),
    ),
    "A100, driver 570": (
        "570.148.08",
        f"<ecc_errors>{_ECC}</ecc_errors>{_NO_PAGES}<remapped_rows>{ROWS}</remapped_rows>{_NO_FABRIC}"
        + _reasons("event")
        + _RESET.format("Requested functionality has been deprecated")
        + _ACTION,
    ),
    "H100, driver 580": (
        "580.105.08",
        f"<ecc_errors>{_ECC}<channel_repair_pending>No</channel_repair_pending>"
        f"<tpc_repair_pending>No</tpc_repair_pending></ecc_errors>{_NO_PAGES}<remapped_rows>{ROWS}</remapped_rows>"
        "<fabric><state>Completed</state><status>Success</status><cliqueId>0</cliqueId>"
        "<clusterUuid>00000000-0000-0000-0000-000000000000</clusterUuid>"
        "<health><summary>N/A</summary><bandwidth>N/A</bandwidth></health></fabric>"
        + _reasons("event")
        + _ACTION,
    ),
    "GB300, driver 580.173": (
        "580.173.02",
        f"<ecc_errors>{_ECC}<channel_repair_pending>No</channel_repair_pending>"
        f"<tpc_repair_pending>No</tpc_repair_pending><unrepairable_memory>No</unrepairable_memory></ecc_errors>"
        f"{_NO_PAGES}<remapped_rows>{ROWS}</remapped_rows>"
        f"<fabric><state>Completed</state><status>Success</status><cliqueId>2</cliqueId>{HEALTH}</fabric>"
        + _reasons("event")
        + _ACTION,
    ),
    "T4, driver 595": (
        "595.91.07",
        "<ecc_errors><volatile><sram_uncorrectable>0</sram_uncorrectable><dram_uncorrectable>0</dram_uncorrectable>"
        "</volatile></ecc_errors><retired_pages><pending_blacklist>No</pending_blacklist>"
        "<pending_retirement>No</pending_retirement></retired_pages><remapped_rows>N/A</remapped_rows>"
        + _NO_FABRIC
        + _reasons("event")
        + _ACTION,
    ),
}
"""Board and driver -> version, and what is in each GPU's element."""


def output(board: str = "GB300, driver 580.173", gpus: Sequence[str] = GPUS) -> str:
    """The document: every GPU the same, with the bus ids of 8 digits that newer drivers write."""
    driver, inner = BOARDS[board]
    elements = "".join(
        f'<gpu id="0000{address.upper()}"><persistence_mode>Enabled</persistence_mode>'
        "<ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>"
        "<pci><replay_counter>150</replay_counter><replay_rollover_counter>0</replay_rollover_counter></pci>"
        f"{inner}</gpu>"
        for address in gpus
    )
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
        f"<nvidia_smi_log><driver_version>{driver}</driver_version>"
        f"<attached_gpus>{len(gpus)}</attached_gpus>{elements}</nvidia_smi_log>\n"
    )
