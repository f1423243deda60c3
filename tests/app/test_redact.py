"""What a tenant may see is a closed table: anything else is hidden, whatever its source and contents."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import amounts
from weft.app import redact, tenanttext
from weft.app.shown import shown as shown_to_tenants
from weft.model.errors import (
    ConflictError,
    InputError,
    InputErrors,
    NotFoundError,
    PermanentError,
    RefusedError,
    TemporaryError,
    UnknownError,
    WeftError,
)
from weft.model.kinds import every_kind
from weft.model.localityorder import LEVELS
from weft.model.messages import OPERATORS, health, orders, outside, placement, pods, problems, queue, withheld
from weft.model.messages.orders import instead
from weft.model.offer import (
    BootOffer,
    ClearOffer,
    ExclusionsOffer,
    LaterOffer,
    LeaseOffer,
    NeighboursOffer,
    NewPodOffer,
    NumbersOffer,
    Offer,
    OfferedChange,
    OfferedTime,
    ReleaseOffer,
    offered,
)
from weft.model.placement import Explanation, FilterReport, Occupancy, PlacementRequest, Refusal
from weft.model.pod import PodState
from weft.model.resources import Resource
from weft.model.views import Health
from weft.planning.place.would_fit import smallest_changes
from weft.planning.shapes.plan import NOT_ORDERED
from weft.testing import examples

EVENT = str(withheld.EVENT())
NAME = "weft-1f0c9a3b-server-gpu01"
SECRETS = [
    "gpu03: fan broken, ask Ms Secret (secret@example.org)",
    "server of another project secret runs on gpu03",
    "held by pod secret of project 0123456789abcdef0123456789abcdef",
    "port 0x0002c90300300001 of leaf7 is down",
    "read the key /etc/weft/agent-secret.pem",
    "agent sm1 at https://10.0.0.1:9443 doesn't answer: run `systemctl start weft-secret`",
    f"{NAME}: secret",
    "Nova host cn-secret-17 is disabled: secret maintenance",
    "waiting for capacity secret",
    "in the queue\nsecret",
    "READY: secret",
    f"creating {NAME} secret",
    f"creating {NAME}; secret is there",
    f"server {NAME} is not there (secret)",
    "the project's quotas would be exceeded: secret of team-b: 1 used + 2 wanted > 3",
    "reserved for project secret",
    "starts at 2027-01-01T00:00Z, nodes booked: secret",
]


LATER = LaterOffer().model_dump(mode="json")


def _time(field: Literal["lease.start", "lease.end"]) -> LeaseOffer:
    at = datetime(2026, 11, 21, 16, 1, tzinfo=UTC)
    return LeaseOffer(changes=(OfferedTime(field=field, was=None, becomes=at),))


@pytest.mark.parametrize("text", SECRETS)
def test_unknown_reason_reaches_no_tenant(text: str) -> None:
    """In every place that shows a text to tenants."""
    for state in PodState:
        assert "secret" not in tenanttext.reason(text, state)
    shown = [
        tenanttext.step(text, at_rest=False),
        tenanttext.event(text),
        tenanttext.refusal(text),
    ]
    shown += [
        tenanttext.conflict(text),
        tenanttext.allowed(text),
        tenanttext.absent(text),
    ]
    shown += tenanttext.failure(PermanentError(text, text, text, text))
    shown += tenanttext.difference(text, text, text) + tenanttext.difference("host", text, text)
    shown += tenanttext.difference("status", text, text)
    for error in (
        RefusedError(text, {"reason": text, "would_fit": [text], text: text}),
        TemporaryError(text, text, text, text),
        PermanentError(text, text, text, text),
        InputError("nodes.count", 3, text),
        InputErrors([InputError("nodes.count", 3, text)]),
        ConflictError(text),
        NotFoundError(text),
        WeftError(text),
    ):
        shown_error = redact.error(error)
        shown += [str(shown_error), str(getattr(shown_error, "detail", ""))]
    for one in shown:
        assert "secret" not in one and "0x0002c9" not in one and "10.0.0.1" not in one, one


@settings(max_examples=amounts.examples(100))
@given(lead=st.sampled_from(SECRETS), tail=st.text(max_size=30), head=st.text(max_size=30))
def test_surrounding_words_do_not_reveal_a_secret(lead: str, tail: str, head: str) -> None:
    """Prefixes, suffixes, separators and line ends around a known text don't make it one that is shown."""
    for glue in ("", "; ", ": ", "\n", " (", "HTTP 503 "):
        text = f"{head}{glue}secretword {lead}{glue}{tail}"
        assert "secretword" not in tenanttext.reason(text, PodState.FAILED)
        assert "secretword" not in tenanttext.event(text)
        assert "secretword" not in tenanttext.refusal(text)


AT = datetime(2026, 11, 21, 16, 1, tzinfo=UTC)
MISSING = problems.MISSING(subject=f"server {NAME}")
CREATE = outside.REQUEST(verb="create", what=NAME)
BROKE = outside.FAILED_TIMES(
    n=3, why=outside.SERVER_FAULT(text="No valid host was found on cn-secret", known=outside.NO_VALID_HOST())
)
OVER_QUOTA = outside.ANSWER(
    status=403,
    text="Quota exceeded for cores: Requested 8, but already used 16 of 20 cores on cn-secret",
    request="req-1",
    known=outside.QUOTA_EXCEEDED(
        resources=("cores",), requested=("8",), used=("16",), limit=("20",), of=("cores",)
    ),
)
WITHHELD = f"it can't be served as ordered ({OPERATORS})"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("waiting for capacity", WITHHELD),
        (queue.NO_CAPACITY(), "waiting for capacity"),
        ("it is held by pod secret", WITHHELD),
        (
            queue.STARTS_BY(start=AT, units="nodes", n=4),
            "waiting for capacity; starts by 2026-11-21T16:15Z, nodes booked: 4",
        ),
        (
            queue.STARTS_AT(start=AT, units="nodes", n=4),
            "starts at 2026-11-21T16:01Z, nodes booked: 4",
        ),
        (queue.NODES_OF_PROJECT(project="0123", used=2, limit=3), "the project has 2 of 3 nodes"),
        (pods.CHANGING(n=2), "changing to generation 2"),
        (
            pods.CHANGING(
                n=2, why=PermanentError(CREATE, "lab", BROKE, outside.CHECK_THEN_RELEASE()).message
            ),
            f"changing to generation 2: create {NAME} (the site): it failed 3 times, No valid host was found; "
            "check the reason, then release the pod",
        ),
        (pods.CHANGING(n=2, why="cn-secret holds pod theirs"), f"changing to generation 2: {OPERATORS}"),
        (
            problems.SEVERAL(problems=[pods.CHANGING(n=2), MISSING]),
            f"changing to generation 2; server {NAME} is missing",
        ),
        (pods.CHANGING(n="2 of pod secret"), WITHHELD),
        (
            PermanentError(
                CREATE, outside.service("compute", "http://nova:8774"), OVER_QUOTA, outside.RAISE_QUOTA()
            ).message,
            f"create {NAME} (Nova): HTTP 403, Quota exceeded for cores: Requested 8, but already used 16 of 20 cores; "
            "raise the project's quota or order less",
        ),
        (
            problems.SEVERAL(
                problems=[
                    MISSING,
                    "port 0x0002c90300300001 is down",
                    problems.DIFFERENT(subject=f"server {NAME}", field="host", observed="cn7", wanted="cn8"),
                ]
            ),
            f"server {NAME} is missing; server {NAME}: host is not as desired; {OPERATORS}",
        ),
        (
            problems.NODE_WITHHELD(subject="gpu01", why=problems.OTHERS_ON_HOST()),
            "node gpu01: its host has something that doesn't belong to the pod: its adapters are kept out of the pod's "
            "segment",
        ),
        (problems.NODE_WITHHELD(subject="gpu01", why="pod secret is on it"), WITHHELD),
        (problems.MISSING(subject="server secret of team-b"), WITHHELD),
    ],
)
def test_reason_is_shown_only_in_its_tenant_form(text: str, shown: str) -> None:
    """Values a tenant may know are shown, rounded where needed; plain text is withheld, whatever it says."""
    assert tenanttext.reason(text, PodState.FAILED) == shown


def _state(state: str, why: str = "") -> str:
    return pods.STATE(state=state, why=why)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("PENDING: ordered", EVENT),
        (_state("PENDING", pods.ORDERED()), "PENDING: ordered"),
        (
            _state("PLACED", pods.ON_NODES(nodes=["gpu01", "gpu02"], spare=["gpu03"])),
            "PLACED: gpu01, gpu02; spare: gpu03",
        ),
        (pods.CREATING(name=NAME), f"creating {NAME}"),
        (_state("FAILED", "agent sm1 is silent"), "FAILED"),
        (
            pods.STATE_LASTS(state="BOOTING", lasted=700, limit=600, why="agent sm1 is silent"),
            "BOOTING for 700 s, more than 600 s",
        ),
        ("gpu01: fan (Ms Secret)", EVENT),
        (pods.RELEASE_REQUESTED(user="alice"), "release requested by alice"),
        (pods.RELEASE_REQUESTED(user="Alice A. Liddell"), "release requested by a user"),
        (pods.RELEASE_REQUESTED(user="olga (operator)"), "release requested by an operator"),
        (
            pods.RECEIPT_WRONG(
                what=pods.SEGMENT_AFTER_RELEASE(kind="segment", id="0x65", place="ib0", owner="pod")
            ),
            "segment 0x65 is on fabric ib0 after the pod was released, although the receipt reports it gone",
        ),
        (
            pods.NUMBER_TAKEN(space="segment/ib0", number=101, now=102),
            "segment/ib0 101 is in use by something else: now using 102",
        ),
        (
            pods.EXTENDED(end=datetime(2027, 1, 1, tzinfo=UTC), user="alice@example.org"),
            "extended until 2027-01-01T00:00Z by alice@example.org",
        ),
        (
            pods.VERIFIED(
                read=["8 adapters of ib0 that hear each other", "4 host ports of ib0", "4 servers in main"],
                notes=["secret"],
            ),
            "as desired: 8 adapters of ib0 that hear each other, 4 host ports of ib0, 4 servers in main",
        ),
        (
            pods.VERIFIED(read=["3 secret things", "4 UFM's host ports of ib0"], notes=[]),
            "as desired: 4 UFM's host ports of ib0",
        ),
        (pods.VERIFIED(read=["3 secret things"], notes=[]), "as desired"),
    ],
)
def test_event_is_shown_only_in_its_tenant_form(text: str, shown: str) -> None:
    """Parts that a tenant may not know are left out."""
    assert tenanttext.event(text) == shown


@pytest.mark.parametrize(
    "allowed",
    [
        instead(
            "an end, {last} at the latest: leases may end at most {longest} from now", last=AT, longest="30d"
        ),
        instead("at most a /{length}", length=16),
        instead("flavors of cloud {cloud}: {flavors}", cloud="lab", flavors="gpu8, cpu1"),
    ],
)
def test_allowed_values_are_shown_to_tenants(allowed: str) -> None:
    """If they depend only on the order and on what every project is offered."""
    error = redact.error(InputError("field", "value", allowed))
    assert str(error) == f"field: 'value' is not allowed: {allowed}"


def test_allowed_value_with_foreign_text_is_withheld() -> None:
    """A value that looks like a sentence withholds the whole text; the part for operators is left out."""
    line = instead("flavors of cloud {cloud}: {flavors}", cloud="lab", flavors="gpu8; secret of\nteam-b")
    for allowed in (line, "at most a /16"):
        assert tenanttext.allowed(allowed) == str(withheld.ALLOWED())
    assert tenanttext.allowed(instead("a flavor of the site", more=": secret")) == "a flavor of the site"


def test_errors_keep_their_class_and_delay() -> None:
    """And the advice what to do next, where the table has it."""
    error = redact.error(
        TemporaryError(
            outside.REQUEST(verb="create", what=NAME),
            outside.service("network", "http://n:9696"),
            outside.ANSWER(status=503, text="secret"),
            delay=9,
        )
    )
    assert isinstance(error, TemporaryError)
    assert (error.delay, str(error)) == (9, f"create {NAME} (Neutron): HTTP 503; will be retried")
    silent = UnknownError(
        "read tables of sm1", "fabric agent sm1", "no file /etc/weft/key.pem", "run weft-agent"
    )
    shown_error = redact.error(silent)
    assert type(shown_error) is UnknownError
    assert str(shown_error) == "serve the request (the site): operators see why; ask an operator what to do"
    assert str(redact.error(ConflictError(orders.NOT_FAILED(pod="train", state="READY")))) == (
        "pod train is READY: only a FAILED pod can be retried"
    )


def test_refusal_counts_unavailable_nodes_without_naming_causes() -> None:
    """A tenant can't distinguish maintenance, quarantine, reservations and other tenants' use."""

    def shown_refusal(*rows: tuple[str, int, int]) -> object:
        filters = [
            FilterReport(filter=f, removed=r, left=n, examples=(f"gpu04: {f} secret",)) for f, r, n in rows
        ]
        reason = placement.TOO_FEW_NODES(n=4, there=2, removed="secret 3")
        assert reason == "4 nodes are requested, but 2 are available (removed by: secret 3)."
        value = Explanation(considered=16, filters=tuple(filters), chosen=reason)
        refusal = Refusal(
            reason=reason,
            explanation=value,
            would_fit=(
                offered("nodes.count", 4, 2),
                ClearOffer(node="gpu07", reason="secret", nodes=1),
                ReleaseOffer(pod="secret", nodes=2),
            ),
            earliest_start=datetime(2026, 11, 21, 16, 0, 0, 1, tzinfo=UTC),
        )
        error = redact.error(RefusedError(reason, {"secret": "secret"}, refusal))
        assert isinstance(error, RefusedError) and "secret" not in str(error)
        return error.detail

    kept = {
        "reason": "4 nodes are requested, but 2 are available",
        "code": "TOO_FEW_NODES",
        "params": {"n": 4, "there": 2},
        "explanation": {
            "considered": 16,
            "filters": [
                {"filter": "accelerators", "removed": 4, "left": 12, "examples": []},
                {"filter": "busy", "removed": 10, "left": 2, "examples": []},
            ],
            "compared": [],
            "chosen": "4 nodes are requested, but 2 are available",
        },
        "would_fit": [
            {
                "kind": "fields",
                "changes": [{"field": "nodes.count", "was": 4, "becomes": 2}],
                "message": "nodes.count: 2 instead of 4",
            },
            LATER,
        ],
        "earliest_start": "2026-11-21T16:15:00Z",
        "quotas": [],
    }
    assert shown_refusal(("accelerators", 4, 12), ("busy", 10, 2)) == kept
    assert (
        shown_refusal(("accelerators", 4, 12), ("maintenance", 3, 9), ("quarantine", 2, 7), ("apart", 5, 2))
        == kept
    )


def test_alternatives_hide_names_of_other_pods() -> None:
    """So do those about quarantined nodes."""
    request = PlacementRequest(pod="p", project="x", count=2, cloud="c", fabric="ib", hcas_per_node=1)
    occupancy = Occupancy(busy={"gpu01": "secret"}, quarantined={"gpu02": "secret fan"})

    def fits(changed: PlacementRequest, then: Occupancy, gone: Collection[str] = ()) -> bool:
        return changed.count == 1 or then != occupancy or bool(gone)

    changes = smallest_changes(request, occupancy, fits, LEVELS)
    assert "secret" in str(changes)
    refusal = Refusal(reason="no room", explanation=Explanation(considered=2), would_fit=changes)
    error = redact.error(RefusedError("no room", refusal=refusal))
    assert isinstance(error, RefusedError)
    assert error.detail["would_fit"] == [offered("nodes.count", 2, 1).model_dump(mode="json"), LATER]


_APART = OfferedChange(field="locality.apart_from", was=("secret", "p9"), becomes=("p9",))


@pytest.mark.parametrize(
    ("offer", "message"),
    [
        (offered("ipus.count", 16, 8), "ipus.count: 8 instead of 16"),
        (offered("ipus.ipu_pod", "pod1", None), "ipus.ipu_pod: omitted instead of pod1"),
        (offered("locality.exclusive", True, False), "locality.exclusive: false instead of true"),
        (NewPodOffer(field="network.rdma"), "a new pod, with a larger network.rdma"),
        (BootOffer(nodes=77), "nodes.image, nodes.flavor: others"),
        (_time("lease.start"), "lease.start: fits from 2026-11-21T16:15Z"),
        (_time("lease.end"), "lease.end: 2026-11-21T16:00Z at the latest"),
        (NeighboursOffer(changes=(_APART,)), LATER["message"]),
        (ReleaseOffer(pod="secret", nodes=3), LATER["message"]),
        (ReleaseOffer(), LATER["message"]),
        (ClearOffer(node="gpu1", reason="secret", nodes=1), LATER["message"]),
        (ExclusionsOffer(nodes=2), LATER["message"]),
        (NumbersOffer(), LATER["message"]),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_offer_is_shown_according_to_its_kind(offer: Offer, message: str) -> None:
    """What changes in the order itself would make fit, with times rounded; anything about others is "later"."""
    refusal = Refusal(reason="no room", explanation=Explanation(considered=2), would_fit=(offer,))
    (shown,) = shown_to_tenants(refusal).would_fit
    assert shown.message == message
    assert offer.message != message or "secret" not in offer.model_dump_json()


def test_kinds_of_offers_are_all_known() -> None:
    """A new kind must be added here, and its visibility decided."""
    kinds = {one.model_fields["kind"].default for one in get_args(get_args(Offer)[0])}
    assert kinds == {
        *("fields", "lease", "boot", "new_pod"),
        *("neighbours", "release", "clear", "exclusions", "numbers", "later"),
    }


def test_chosen_placement_is_shown_as_nodes_and_leaves() -> None:
    """The planner's explanation, which mentions other pods, is replaced."""
    made = examples.plan(examples.order(), "id-of-team-a").placement
    why = made.explanation.model_copy(update={"chosen": "secret"})
    answer = shown_to_tenants(made.model_copy(update={"explanation": why})).explanation
    leaves = sorted({n.leaf for n in made.nodes})
    assert answer.chosen == f"{len(made.nodes)} nodes on {len(leaves)} leaf ({', '.join(leaves)})."


def test_tables_of_shown_fields_name_existing_fields() -> None:
    for kind in every_kind():
        fields = kind.row.spec.model_fields
        assert fields["kind"].default == kind
        named = (kind.row.shown or set()) | (kind.row.shown_of_site or set()) | kind.row.in_place
        assert named <= fields.keys(), kind


@pytest.mark.parametrize("owner", ["tenant", "site"])
def test_plan_shows_only_fields_of_the_table(owner: str) -> None:
    """Hosts, members and other fields are hidden; the result is still a valid plan."""
    made = examples.plan(examples.order(), "id-of-team-a")
    resources = tuple(r.model_copy(update={"owner": owner}) for r in made.graph.resources)
    made = made.model_copy(update={"graph": made.graph.model_copy(update={"resources": resources})})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pydantic warns about a value that its field doesn't allow
        shown = type(made).model_validate_json(shown_to_tenants(made).model_dump_json())
    rows = {kind: kind.row for kind in every_kind()}
    table = {k: r.shown if owner == "tenant" else r.shown_of_site for k, r in rows.items()}
    before = made.graph.by_key()
    assert {r.kind for r in shown.graph.resources} == {r.kind for r in resources if table[r.kind] is not None}
    for resource in shown.graph.resources:
        _check_fields(resource, before[resource.key], table[resource.kind] or frozenset())
    assert shown.pod_id == NOT_ORDERED and not shown.placement.explanation.compared


def _check_fields(shown: Resource, whole: Resource, table: frozenset[str]) -> None:
    for name, value in whole.spec:
        kept = getattr(shown.spec, name)
        door = name == "address" and whole.owner == "site"
        assert (
            kept == value
            if name in table or name == "kind" or door
            else kept in (tenanttext.HIDDEN, (), "", None, 0)
        )


def test_times_of_other_projects_are_rounded() -> None:
    """To a quarter of an hour; the tenant's own times stay exact."""
    view = examples.waiting(examples.pod(str(uuid.uuid4()), examples.order(), "id-of-team-a", "alice"))
    at = datetime(2026, 11, 21, 16, 0, 0, 1, tzinfo=UTC)
    others = view.model_copy(update={"expected_start": at, "reason": "waiting for capacity"})
    own = view.model_copy(
        update={"expected_start": at, "reason": queue.STARTS_AT(start=at, units="nodes", n=2)}
    )
    assert shown_to_tenants(others).expected_start == datetime(2026, 11, 21, 16, 15, tzinfo=UTC)
    assert shown_to_tenants(own).expected_start == at


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (outside.STATE_OF_CLOUD(state="BUILD", task="spawning"), "BUILD spawning"),
        (outside.STATE_OF_CLOUD(state="BUILD", task=None), "BUILD"),
        (outside.STATE_OF_CLOUD(state="DOWN", host="rack7-secret.example"), "DOWN"),
        (outside.STATE_OF_CLOUD(state="creating"), "creating"),
        (outside.STATE_OF_CLOUD(state="wait call-back"), "wait call-back"),
        (outside.BEING_DELETED(), "being deleted"),
        ("BUILD spawning", OPERATORS),
        (outside.STATE_OF_CLOUD(state="it is in maintenance: secret"), OPERATORS),
    ],
)
def test_step_in_progress_shows_the_clouds_state(text: str, shown: str) -> None:
    """Normal booting must not read like a fault; hosts' names are left out."""
    assert tenanttext.step(text, at_rest=False) == shown


def test_health_names_the_failing_part_without_details() -> None:
    """Everyone may read it: it has codes of weft's parts, no text of an error."""
    parts = {
        "database": health.OK(),
        "thread queue": health.NO_TURN(lasted=90, limit=30, trouble="KeyError secret"),
        "site": "run a statement (PostgreSQL at secret): gone; will be retried",
    }
    seen = shown_to_tenants(Health(ready=False, checks=parts)).checks
    assert seen == {"database": "ok", "thread queue": "no turn for 90 s, more than 30 s", "site": "not ok"}
