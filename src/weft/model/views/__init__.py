"""What the API returns; the CLI's `--json` prints the same documents.

Tenants see their own pods with node, rack and leaf names; GUIDs, hosts' addresses and agents are for operators.
"""

from weft.model.views.audit import AuditLogEntry, AuditLogSearch, AuditReport, Finding
from weft.model.views.capacity import (
    CapacityRowView,
    CapacityView,
    CountView,
    LargestView,
    SoonView,
)
from weft.model.views.networks import (
    FIRST_NETWORKS,
    NetworkPortView,
    NetworkSearch,
    NetworkSummary,
    NetworkView,
)
from weft.model.views.nodehistory import MOST_ENTRIES, NodeHistory, NodeHistoryEntry
from weft.model.views.podmap import MapPort, PodMap
from weft.model.views.pods import (
    FIRST_PAGE,
    MOST_EVENTS,
    ActionView,
    Applied,
    ConsoleView,
    EventView,
    PodSearch,
    PodSummary,
    PodView,
    ResourceView,
    ServerView,
)
from weft.model.views.searched import SearchHit, SearchResult
from weft.model.views.site import (
    Acceptance,
    DrainedPod,
    DrainRequest,
    DrainResult,
    DrainView,
    FabricComparison,
    FabricReading,
    Health,
    HoldView,
    LeafView,
    NodeView,
    ReportView,
    SiteResources,
    SiteView,
)
from weft.model.views.topology import TopologyFile

__all__ = [
    "FIRST_NETWORKS",
    "FIRST_PAGE",
    "MOST_ENTRIES",
    "MOST_EVENTS",
    "Acceptance",
    "ActionView",
    "Applied",
    "AuditLogEntry",
    "AuditLogSearch",
    "AuditReport",
    "CapacityRowView",
    "CapacityView",
    "ConsoleView",
    "CountView",
    "DrainRequest",
    "DrainResult",
    "DrainView",
    "DrainedPod",
    "EventView",
    "FabricComparison",
    "FabricReading",
    "Finding",
    "Health",
    "HoldView",
    "LargestView",
    "LeafView",
    "MapPort",
    "NetworkPortView",
    "NetworkSearch",
    "NetworkSummary",
    "NetworkView",
    "NodeHistory",
    "NodeHistoryEntry",
    "NodeView",
    "PodMap",
    "PodSearch",
    "PodSummary",
    "PodView",
    "ReportView",
    "ResourceView",
    "SearchHit",
    "SearchResult",
    "ServerView",
    "SiteResources",
    "SiteView",
    "SoonView",
    "TopologyFile",
]
