"""Forms of sentences that earlier versions wrote into rows which are still read. Never written any more."""

from __future__ import annotations

from weft.app.sayings.forms import forms
from weft.planning.shapes.resolve import SHAPES

REASONS = forms(
    "it had nothing yet",
    "retry asked",
    "it was changed",
    "release asked",
    "waits for room",
    "waits for fewer leaves",
    "its lease is over",
    "its time has come, but its nodes are not given back yet",
    "fits at no time that is known",
    "it is not there",
    "seen again after it was gone",
    *(f"starts at {{time}}, {shape.units} promised: {{n}}" for shape in SHAPES),
)
EVENTS = forms(
    "{name} is there",
    "release asked by {user}",
    "abandon asked by {user}: …",
    "abandoned with this left: …",
    "seen free, and given back: …",
    "{space} {n} is in use by somebody else: it has {n} now",
    "P_Key {id} is on fabric {node} after the pod was released, though the receipt says that it was gone",
    "P_Key {id} is on no port of {node} any more",
    "{kind} {id} is in {node} after the pod was released, though the receipt says that it was gone",
    "segment {id} is on fabric {node} after the pod was released, though the receipt says that it was gone",
    "segment {id} is on no port of {node} any more",
)
LEADS = forms(
    *(f"{{name}} is broken and is {what}: …" for what in ("replaced", "made anew")),
    "mending {name}: …",
)
CLAUSES = forms(
    "network {name} has something on it that is not the pod's: …",
    "{kind} {name} is not there",
    *(
        f"node {{node}}: {why}: its adapters are kept out of the pod's partition"
        for why in (
            "something that isn't the pod's is on its host",
            "the pod's server isn't on its host",
            "its machine doesn't run the pod's server now",
            "its host has something that doesn't belong to the pod",
        )
    ),
)
