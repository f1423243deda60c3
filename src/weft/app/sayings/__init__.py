"""The sentences that a tenant is shown: a table, closed by default.

What weft writes for itself and for operators (reasons, events, errors) contains text from many sources: services'
answers, operators' reasons for a quarantine, other projects' pods, hosts, agents. None of it reaches a tenant unless
the whole sentence matches one of the forms here, whose gaps take only numbers, times, standard words and names that
are the pod's own or the tenant's. Other sentences are replaced by a generic one for the state, so a new sentence is
hidden until someone adds its form.
"""

from weft.app.sayings.forms import HIDDEN, OPERATORS
from weft.app.sayings.networks import why_not_in
from weft.app.sayings.orders import absent, allowed, conflict, refusal
from weft.app.sayings.outside import outside
from weft.app.sayings.pods import EVENT, difference, event, health, reason, step
from weft.app.sayings.times import earlier, later

__all__ = [
    "EVENT",
    "HIDDEN",
    "OPERATORS",
    "absent",
    "allowed",
    "conflict",
    "difference",
    "earlier",
    "event",
    "health",
    "later",
    "outside",
    "reason",
    "refusal",
    "step",
    "why_not_in",
]
