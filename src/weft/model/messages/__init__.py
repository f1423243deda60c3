"""What weft says, as values: codes with typed values, and the sentences that operators and tenants read."""
# What is imported here is what the package offers.
# pyright: reportUnusedImport=false

from weft.model.messages.message import (
    CODES,
    OPERATORS,
    Code,
    Message,
    for_tenant,
    message,
    same,
    stored,
    whole,
)

from weft.model.messages import bandwidth, certificates, errors, health, hostchecks, links  # isort: skip
from weft.model.messages import maintenance, networks, nodehealth, nodes  # isort: skip
from weft.model.messages import orders, outside, placement, pods, problems, queue, repairs  # isort: skip
from weft.model.messages import topology, webhooks, withheld  # isort: skip
