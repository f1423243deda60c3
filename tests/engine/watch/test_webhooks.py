"""Webhooks: every event of the project's pods reaches a real HTTPS receiver, in order, whatever that does meanwhile."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from tests.engine.house import ORDER, House
from tests.helpers.receiver import Receiver, receiver
from weft.app.webhookkeeper import WebhookKeeper, signatures
from weft.drivers.receivers import HttpsReceivers
from weft.engine.base.database import Database
from weft.engine.base.gate import ClosedError
from weft.engine.base.ungated import Ungated
from weft.engine.store.counts import WebhookCount
from weft.engine.watch import webhooks as module
from weft.model.errors import ConflictError, ForbiddenError, InputError, NotFoundError
from weft.model.pod import PodState
from weft.model.site import WebhookPolicy
from weft.model.views import NewWebhook, WebhookRequest


@pytest.fixture
def there(tmp_path: Path) -> Generator[Receiver]:
    with receiver(tmp_path) as made:
        yield made


class Sender(House):
    """A house whose site allows webhooks to the receiver."""

    there: Receiver

    def begin(self, there: Receiver) -> None:
        policy = WebhookPolicy.model_validate(
            {"networks": ["127.0.0.0/8"], "ports": [443, there.port], "most": 3}
        )
        self.store.activate_site(self.site.model_copy(update={"webhooks": policy}), "test")
        self.there, self.receivers = there, HttpsReceivers(there.context, seconds=1.0)
        self.service.webhooks.receivers = self.receivers
        self.senders = self.new_sender()

    def new_sender(self) -> WebhookKeeper:
        return WebhookKeeper(self.store, lambda: self.store.site().site, self.receivers)

    def hook(self, path: str = "/", *events: str, name: str = "ops") -> NewWebhook:
        given = WebhookRequest(name=name, url=self.there.url(path), events=events)
        return self.service.webhooks.make(self.request(), given)

    def send(self, keeper: WebhookKeeper | None = None) -> None:
        keeper = keeper or self.senders
        keeper.tend()
        keeper.wait()

    def later(self, seconds: float) -> None:
        """Let so many seconds pass for webhooks."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute(
                "UPDATE webhook SET next_at = next_at - %(s)s, held_until = held_until - %(s)s,"
                " failing_since = failing_since - %(s)s, old_until = old_until - %(s)s, tested_at = tested_at - %(s)s",
                {"s": timedelta(seconds=seconds)},
            )

    def state(self, name: str = "ops") -> tuple[str, str]:
        view = self.service.webhooks.show(self.request(), name)
        return view.state, view.code


@pytest.fixture
def house(database: Database, database_url: str, there: Receiver) -> Generator[Sender]:
    made = Sender(database, database_url)
    made.begin(there)
    yield made
    made.senders._pool.shutdown()  # pyright: ignore[reportPrivateUsage]
    made.close()


def sequences(there: Receiver, path: str = "/") -> list[int]:
    return [m["data"]["sequence"] for m in there.messages(path)]


def test_all_events_are_delivered_in_order_and_signed(house: Sender, there: Receiver) -> None:
    """By the scheme of Standard Webhooks; the body is what the project's reader sees."""
    made = house.hook()
    pod = house.ready()
    house.send()
    listed = house.service.pods.events(house.request(), "train")
    assert sequences(there) == [e.sequence for e in listed]
    message = there.messages()[0]
    assert (message["type"], message["data"]["pod"]) == ("pod.state", "train")
    for _, headers, body in there.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(made.secret.removeprefix("whsec_"))
        digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"
    assert len({headers["webhook-id"] for _, headers, _ in there.got}) == len(listed)
    before = len(there.got)
    house.send()
    assert len(there.got) == before, "nothing twice"
    house.release(pod)
    house.send()
    assert len(there.got) > before
    view = house.service.webhooks.show(house.request(), "ops")
    assert (view.state, view.delivered) == ("active", len(there.got))


def test_signature_matches_the_standard_webhooks_example() -> None:
    """The example of the library `standardwebhooks` of its authors."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signatures([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


def test_receiver_that_fails_gets_the_same_event_again(house: Sender, there: Receiver) -> None:
    """With the same id, later and later; nothing after it is sent before."""
    house.hook()
    there.answers["/"] = "500"
    house.ready()
    house.send()
    house.send()
    assert len(there.got) == 1 and house.state() == ("failing", "RECEIVER_STATUS")
    for delay in module.DELAYS[:3]:
        house.later(delay)
        house.send()
    assert len({h["webhook-id"] for _, h, _ in there.got}) == 1 and len(there.got) == 4
    there.answers["/"] = "200"
    house.later(module.DELAYS[3])
    house.send()
    assert sequences(there)[4:] == [e.sequence for e in house.service.pods.events(house.request(), "train")]
    assert house.state() == ("active", "")


def test_receiver_that_fails_for_a_day_is_disabled(house: Sender, there: Receiver) -> None:
    """Shown with the reason; once enabled, it goes on with what wasn't delivered."""
    house.hook()
    there.answers["/"] = "302"
    pod = house.ready()
    house.send()
    house.later(module.DISABLED_AFTER.total_seconds() + 60)
    house.send()
    assert house.state() == ("failing", "RECEIVER_REDIRECTS"), "weft may have been off all day"
    for _ in range(module.LEAST_FAILURES - 2):
        house.later(module.DELAYS[-1] + 1)
        house.send()
    assert house.state() == ("disabled", "WEBHOOK_FAILED")
    sent = len(there.got)
    house.later(1e6)
    house.send()
    assert len(there.got) == sent
    there.answers["/"] = "200"
    house.service.webhooks.enable(house.request(), "ops")
    house.send()
    assert sequences(there)[sent:] == [e.sequence for e in house.store.records.events(pod.id, 0)]


def test_receiver_that_wants_no_more_is_disabled_at_once(house: Sender, there: Receiver) -> None:
    """It answers HTTP 410."""
    house.hook()
    there.answers["/"] = "410"
    house.order()
    house.send()
    assert house.state() == ("disabled", "RECEIVER_GONE")
    assert house.store.counts().webhooks == WebhookCount(active=0, failing=0, disabled=1)


def test_slow_receiver_delays_no_other(house: Sender, there: Receiver) -> None:
    """Nor does one that drops connections; one process has a thread for each."""
    for path in ("/slow", "/drop", "/good"):
        house.hook(path, name=path[1:])
    there.answers |= {"/slow": "hang", "/drop": "drop"}
    house.order()
    house.send()
    assert len(there.messages("/good")) == len(
        house.store.records.events(house.store.pods.find("train", "team-a").id, 0)
    )
    assert house.state("slow") == ("failing", "RECEIVER_LATE")
    assert house.state("drop") == ("failing", "RECEIVER_UNREACHABLE")


def test_worker_that_died_is_followed_by_another(house: Sender, there: Receiver) -> None:
    """After its hold; what it sent without noting it comes again, under the same id."""
    house.hook()
    house.order()
    with psycopg.connect(house.database.url) as connection:
        before = connection.execute("SELECT mark, life, xact::text, sequence FROM webhook").fetchone()
    (mine,) = house.senders._hooks.claim(5)  # pyright: ignore[reportPrivateUsage]
    other = house.new_sender()
    house.send(other)
    assert there.got == [], "held by the first one"
    house.later(module.HOLD.total_seconds())
    house.send(other)
    first = sequences(there)
    assert first
    assert not house.senders._hooks.advance(mine, mine.position, 1), "its hold is over"  # pyright: ignore[reportPrivateUsage]
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE webhook SET (mark, life, xact, sequence) = (%s, %s, %s::xid8, %s)", before)
    house.send(other)
    ids = [h["webhook-id"] for _, h, _ in there.got]
    assert ids == ids[: len(first)] * 2
    other._pool.shutdown()  # pyright: ignore[reportPrivateUsage]


def test_filter_sees_what_the_tenant_sees(house: Sender, there: Receiver) -> None:
    """Kinds and beginnings of codes; nothing hidden is found out by a filter, nor sent."""
    house.hook("/state", "state", name="state")
    house.hook("/codes", "POD_", name="codes")
    house.hook("/all", name="all")
    pod = house.order()
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) VALUES (%s, now(), 'error', '\"host cn-17 burns\"')",
            [pod.id],
        )
    house.send()
    assert {m["type"] for m in there.messages("/state")} == {"pod.state"}
    assert {m["data"]["code"] for m in there.messages("/codes")} == {"POD_STATE"}
    assert "pod.error" in {m["type"] for m in there.messages("/all")}
    assert not any(b"cn-17" in body for _, _, body in there.got)


def test_webhook_of_another_project_is_not_shown_and_gets_nothing(house: Sender, there: Receiver) -> None:
    """Its webhooks don't exist for others; readers don't see URLs, which may be secrets."""
    made = house.hook()
    house.service.pods.create(house.request("team-b"), ORDER.model_copy(update={"name": "theirs"}))
    house.send()
    assert there.got == []
    for name in ("ops", made.id):
        with pytest.raises(NotFoundError):
            house.service.webhooks.show(house.request("team-b"), name)
        with pytest.raises(NotFoundError):
            house.service.webhooks.delete(house.request("team-b"), name)
    with pytest.raises(ForbiddenError):
        house.service.webhooks.list(house.request(role="reader"))
    assert [h.id for h in house.service.webhooks.list(house.operator, all_projects=True)] == [made.id]
    house.service.webhooks.delete(house.operator, made.id)
    assert house.service.webhooks.list(house.request()) == []


def test_rotated_secret_signs_beside_the_old_one(house: Sender, there: Receiver) -> None:
    """For a day; afterwards alone. A deleted webhook leaves no secret."""
    old = house.hook()
    new = house.service.webhooks.rotate(house.request(), "ops")
    assert new.secret != old.secret
    house.service.webhooks.test(house.request(), "ops")
    house.later(module.OLD_VALID.total_seconds() + 60)
    house.service.webhooks.test(house.request(), "ops")
    given = [headers["webhook-signature"] for _, headers, _ in there.got]
    for (_, headers, body), secrets in zip(there.got, ([new, old], [new]), strict=True):
        keys = [base64.b64decode(s.secret.removeprefix("whsec_")) for s in secrets]
        at = int(headers["webhook-timestamp"])
        assert headers["webhook-signature"] == signatures(keys, headers["webhook-id"], at, body)
    assert [len(one.split()) for one in given] == [2, 1]
    house.service.webhooks.delete(house.request(), "ops")
    with psycopg.connect(house.database.url) as connection:
        assert connection.execute("SELECT 1 FROM secret WHERE name LIKE 'webhook/%'").fetchall() == []


def test_webhook_gets_nothing_while_the_gate_is_closed(house: Sender, there: Receiver) -> None:
    """A restored copy of the database reports nothing to tenants; once accepted, it says that it was restored."""

    class Closed(Ungated):
        def closed(self, places: object = None, clouds: object = ()) -> ClosedError:
            return ClosedError()

    house.hook()
    house.order()
    house.database.gate = Closed()
    house.send()
    with pytest.raises(ClosedError):
        house.service.webhooks.test(house.request(), "ops")
    assert there.got == []
    house.database.gate = Ungated()
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE event_life SET place = 'another server'")
    house.send()
    assert [m["type"] for m in there.messages()] == ["events.reset"]
    assert there.messages()[0]["data"]["code"] == "EVENTS_RESET"
    pod = house.store.pods.find("train", "team-a")
    assert house.run(pod, PodState.READY)
    house.send()
    assert len(there.got) > 1


def test_test_message_reports_why_it_fails(house: Sender, there: Receiver) -> None:
    """With the receiver's status, and nothing of its answer's body."""
    house.hook("/test")
    found = house.service.webhooks.test(house.request(), "ops")
    assert (found.delivered, found.status, there.messages("/test")[0]["type"]) == (True, 200, "webhook.test")
    there.answers["/test"] = "404"
    house.later(60)
    found = house.service.webhooks.test(house.request(), "ops")
    assert (found.delivered, found.status, found.code) == (False, 404, "RECEIVER_STATUS")


def test_trials_of_a_projects_webhooks_are_bounded(house: Sender, there: Receiver) -> None:
    """Also one after another of several; another project has its own."""
    house.hook()
    house.hook(name="other")
    house.service.webhooks.test(house.request(), "ops")
    for name in ("ops", "other"):
        with pytest.raises(ConflictError) as refused:
            house.service.webhooks.test(house.request(), name)
        assert refused.value.args[0].code == "WEBHOOK_TESTED"
    assert len(there.got) == 1
    given = WebhookRequest(name="ops", url=there.url("/"))
    house.service.webhooks.make(house.request("team-b"), given)
    assert house.service.webhooks.test(house.request("team-b"), "ops").delivered


def test_webhook_learns_of_events_that_were_removed_unsent(house: Sender, there: Receiver) -> None:
    """As one that was disabled for longer than the site keeps events; once, before what is left."""
    house.hook()
    house.order()
    pod = house.store.pods.find("train", "team-a")
    assert house.run(pod, PodState.READY)
    with house.database.statement() as tx:
        assert tx.run("prune_live_events", before=house.clock.now() + timedelta(days=1), kept=1, limit=100)
    house.send()
    first, *rest = there.messages()
    assert (first["type"], first["data"]["code"]) == ("events.removed", "EVENTS_REMOVED")
    assert rest and all(m["type"].startswith("pod.") for m in rest)
    house.service.pods.release(house.request(), "train")
    house.send()
    assert [m["type"] for m in there.messages()].count("events.removed") == 1
    assert len(there.got) > 1 + len(rest)


def test_removed_events_are_reported_once_also_if_none_are_left(house: Sender, there: Receiver) -> None:
    """Retention removes all of them between the claim of the webhook and its reading."""
    house.hook()
    house.order()
    pod = house.store.pods.find("train", "team-a")
    (hook,) = module.WebhookRows(house.store).claim(1)
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            "WITH gone AS (DELETE FROM event RETURNING *) INSERT INTO event_removed"
            " SELECT project_id, life, xact, sequence FROM gone ORDER BY xact DESC, sequence DESC LIMIT 1"
        )
    house.senders._send_all(hook)  # pyright: ignore[reportPrivateUsage]
    assert [m["type"] for m in there.messages()] == ["events.removed"]
    assert house.run(pod, PodState.READY)
    house.send()
    assert [m["type"] for m in there.messages()].count("events.removed") == 1
    assert len(there.got) > 1


def test_webhooks_of_a_project_are_bounded(house: Sender) -> None:
    """As the site says; names are unique in a project; what is refused leaves no secret."""
    for number in range(3):
        house.hook(name=f"n{number}")
    with pytest.raises(ConflictError, match="as many as the site allows"):
        house.hook(name="more")
    with pytest.raises(ConflictError, match="already exists"):
        house.hook(name="n0")
    with pytest.raises(InputError, match="url"):
        house.service.webhooks.make(
            house.request("team-b"), WebhookRequest(name="x", url="https://169.254.169.254/")
        )
    with psycopg.connect(house.database.url) as connection:
        assert len(connection.execute("SELECT 1 FROM secret WHERE name LIKE 'webhook/%'").fetchall()) == 3
