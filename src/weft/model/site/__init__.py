"""The site, described once: hosts, switches, cables, fabrics, clouds, IPU-PODs, and the operator's policies.

These are the values; reading them from YAML and CSV with file and line in every error is `weft.app.sitefile`.
"""
# What is imported here is what the package offers.
# pyright: reportUnusedImport=false

from weft.model.site.cabling import Link, Rack, Switch
from weft.model.site.checks import ChecksPolicy
from weft.model.site.clouds import (
    AcceleratorCount,
    Cloud,
    Flavor,
    FlavorInNova,
    ImageProperties,
    ManagementNetwork,
    PciAffinity,
)
from weft.model.site.deployment import Deployment, DeploymentRole, Function, LdapDomain, cpus_of
from weft.model.site.devices import PORT_NAME, PORT_PATTERN, Device, Interface, plain_port, port_names
from weft.model.site.expected import ExpectedHost
from weft.model.site.fabrics import Fabric, FabricAgent, FabricManager
from weft.model.site.hostnames import DNS_NAMES, host_label, is_dns_name
from weft.model.site.hosts import BOOTABLE, MOST_VFS, Accelerator, Hca, Node
from weft.model.site.ipus import (
    ADMIN_PORT,
    IPUS_PER_MACHINE,
    LEGS,
    METRICS_PORT,
    NODE_EXPORTER_PORT,
    SYSLOG_PORT,
    USER_PORT,
    Address,
    IpuBmcNetwork,
    IpuController,
    IpuDataNetwork,
    IpuGatewayNetwork,
    IpuMachine,
    IpuPod,
)
from weft.model.site.monitoring import Exporter, Monitoring
from weft.model.site.networks import PRIVILEGED, SiteNetwork, SiteSubnet, SubnetRole
from weft.model.site.policies import (
    AcceptancePolicy,
    LeasePolicy,
    PlacementPolicy,
    ProjectLimits,
    QueuePolicy,
    RepairPolicy,
)
from weft.model.site.qos import Qos
from weft.model.site.retention import RetentionPolicy
from weft.model.site.site import Site, SiteHead, Unit
from weft.model.site.storage import NfsExport, Storage
from weft.model.site.switching import Bundle, SwitchAccess, Switching, SwitchLink
from weft.model.site.traffic import ProbeAgent, Traffic
from weft.model.site.webhooks import WebhookPolicy
