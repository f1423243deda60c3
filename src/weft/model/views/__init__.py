"""What the API returns; the CLI's `--json` prints the same documents.

Tenants see their own pods with node, rack and leaf names; GUIDs, hosts' addresses and agents are for operators.
"""
# What is imported here is what the package offers.
# pyright: reportUnusedImport=false

from weft.model.views.audit import AuditLogEntry, AuditLogSearch, AuditReport, Finding
from weft.model.views.capacity import (
    CapacityHistory,
    CapacityPoint,
    CapacityRowView,
    CapacitySearch,
    CapacityView,
    CountView,
    LargestView,
    SoonView,
    TypeStates,
)
from weft.model.views.checks import (
    CheckJudgement,
    CheckReceipt,
    CheckTokenRequest,
    CheckTokenView,
    FailedCheckView,
    JudgedCheck,
    NewCheckToken,
    NodeChecks,
)
from weft.model.views.health import (
    HealthCount,
    HealthGroup,
    HealthReason,
    HealthValue,
    NodeHealth,
    NodeHealths,
    PartFailure,
    PartHistory,
    PartStay,
    PodHealth,
    PodNodeHealth,
    SiteHealth,
)
from weft.model.views.impact import (
    MOST_IMPACT_NODES,
    MOST_IMPACT_PODS,
    SOME_IMPACT_PODS,
    ElsewhereView,
    FabricLoss,
    ImpactView,
    Loss,
    NodeImpact,
    PodImpact,
    UplinkImpact,
)
from weft.model.views.links import (
    MOST_LINK_PODS,
    MOST_LINKS,
    Disturber,
    Disturbers,
    LinkAnswer,
    LinkPod,
    LinkReading,
    LinkView,
    NodeLoad,
    NodeLoads,
    PodLink,
    PodLinks,
)
from weft.model.views.networks import (
    FIRST_NETWORKS,
    NetworkPortView,
    NetworkSearch,
    NetworkSummary,
    NetworkView,
)
from weft.model.views.nodehistory import MOST_ENTRIES, NodeHistory, NodeHistoryEntry
from weft.model.views.podmap import MapPort, PodMap, TopologyFile
from weft.model.views.pods import (
    FIRST_PAGE,
    MOST_EVENTS,
    ActionView,
    Applied,
    ConsoleView,
    EventPage,
    EventSearch,
    EventView,
    PodSearch,
    PodSummary,
    PodView,
    ProjectEvent,
    ResourceView,
    ServerView,
)
from weft.model.views.searched import SearchHit, SearchResult
from weft.model.views.site import (
    Acceptance,
    AgentCertificateView,
    DrainedPod,
    DrainRequest,
    DrainResult,
    DrainView,
    FabricComparison,
    FabricReading,
    Health,
    HoldView,
    LeafView,
    NodePage,
    NodeSearch,
    NodeSort,
    NodeState,
    NodeView,
    ReportView,
    SiteResources,
    SiteView,
)
from weft.model.views.use import UseReport, UseRow, UseSearch, UseState
from weft.model.views.webhooks import NewWebhook, WebhookRequest, WebhookTest, WebhookView
