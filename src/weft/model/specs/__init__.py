"""The desired state of each kind of resource, and how it is described to people; the rest is in `weft.model.kinds`."""
# What is imported here is what the package offers.
# pyright: reportUnusedImport=false

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
