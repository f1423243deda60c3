"""The desired state of each kind of resource, and how it is described to people; the rest is in `weft.model.kinds`."""

from weft.model.specs.base import Spec
from weft.model.specs.networks import (
    RULES_OF_A_GROUP,
    Egress,
    FloatingIPSpec,
    Ingress,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    SubnetSpec,
)
from weft.model.specs.properties import AggregateSpec, FlavorSpec, ImagePropertiesSpec, PropertiesSpec
from weft.model.specs.servers import KeyPairSpec, MachineSpec, ServerSpec
from weft.model.specs.storage import ShareAccessSpec, ShareSpec, VolumeAttachmentSpec, VolumeSpec
from weft.model.specs.vipu import (
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuClusterSpec,
    VipuNamedSpec,
    VipuSpec,
    VipuUserSpec,
)

__all__ = [
    "RULES_OF_A_GROUP",
    "AggregateSpec",
    "Egress",
    "FlavorSpec",
    "FloatingIPSpec",
    "ImagePropertiesSpec",
    "Ingress",
    "KeyPairSpec",
    "MachineSpec",
    "NetworkSpec",
    "PortSpec",
    "PropertiesSpec",
    "RouterSpec",
    "SecurityGroupSpec",
    "SegmentSpec",
    "ServerSpec",
    "ShareAccessSpec",
    "ShareSpec",
    "Spec",
    "SubnetSpec",
    "VipuAgentSpec",
    "VipuAllocationSpec",
    "VipuClusterSpec",
    "VipuNamedSpec",
    "VipuSpec",
    "VipuUserSpec",
    "VolumeAttachmentSpec",
    "VolumeSpec",
]
