"""Lists of a site, edits of them, applies, adoptions, ends, faults and deaths at random, beside others who do what they
like: what others made stays as it is, what was applied comes to be, and what is signed is so."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.engine.site.test_site_left import routed, sweep
from tests.engine.sitehouse import SiteHouse
from tests.engine.sitelists import Lists, activated
from tests.engine.sitestrangers import State, Strangers, state_of
from tests.helpers.amounts import examples, seeded
from weft.engine.base.database import Database
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord
from weft.engine.site.siteowner import desired_of, site_owner
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, WeftError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.siteplan import SitePlan, SiteStep
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing

STEPS = 40
KINDS = (
    *(Kind.NETWORK, Kind.SUBNET, Kind.PORT, Kind.ROUTER, Kind.SECURITY_GROUP, Kind.FLAVOR),
    Kind.AGGREGATE,
)
FAULTS = (
    *(
        (f, v, k)
        for f in (Fault.LOST_ANSWER, Fault.ERROR_500)
        for v in ("create", "update", "delete")
        for k in KINDS
    ),
    *((Fault.UNREACHABLE, v, None) for v in ("find", "alike", "create", "marked")),
    *((Fault.UNDELETABLE, "delete", k) for k in KINDS),
    (Fault.EMPTY, None, None),
)


class DiedError(BaseException):
    """A process's end."""


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[SiteHouse]:
    house = SiteHouse(database, database_url)
    yield house
    house.close()


class Operator:
    """Does something at random; `said`: what, for the reader of a failure.

    Attributes:
        had: ids of all that was ever seen with the mark of a site's owner, by its id.
        steps: of the last apply, by key.
        pods: id -> what a pod has.
        given: ids of what was to be adopted.
        signed, abandoned: ids of owners.
    """

    def __init__(self, house: SiteHouse, dice: random.Random) -> None:
        self.house, self.dice = house, dice
        self.lists = Lists(dice)
        self.others = Strangers(house, dice)
        self.workers = [house.worker, house.new_worker("second")]
        self.had: dict[str, set[str]] = {}
        self.steps: dict[str, SiteStep] = {}
        self.pods: dict[str, State] = {}
        self.given: set[str] = set()
        self.signed: set[str] = set()
        self.abandoned: set[str] = set()
        self.said: list[str] = []

    def act(self) -> None:
        acts: list[tuple[Callable[[], object], int]] = [
            (self.edit, 14),
            (self.apply, 14),
            (self.visits, 30),
            (self.settle, 6),
            (self.stranger, 24),
            (self.fault, 5),
            (self.die, 4),
            (self.destroy, 4),
            (self.abandon, 1),
            (self.repair, 2),
            (self.time, 2),
            (self.pod, 3),
        ]
        (act,) = self.dice.choices([a for a, _ in acts], [w for _, w in acts])
        self.said.append(f"{act.__name__}")
        text = act()
        self.said[-1] += f" {text}" if text else ""
        self.check()

    def check(self) -> None:
        self.house.clock.sleep(0.01)  # no two ends at the same moment
        self.others.check()
        there = self.seen()
        assert all(there.get(id_) == state for id_, state in self.pods.items()), "a pod isn't as it was"
        owner = self.owner()
        if owner is not None:
            self.had.setdefault(str(owner.id), set()).update(t.id for t in self.marked(owner))
            if owner.state is PodState.RELEASED and str(owner.id) not in self.signed:
                self.signed.add(str(owner.id))
                self.receipt(owner)

    def receipt(self, owner: OwnerRecord) -> None:
        """Check that what was just signed is true."""
        signed = self.house.store.records.receipt(owner.id)
        assert signed is not None and verify(signed.model_dump(mode="json"), signed.public_key).valid
        receipt = signed.receipt
        assert receipt.clean or str(owner.id) in self.abandoned, receipt
        if not receipt.clean:
            return
        assert not self.marked(owner), f"signed as clean: {self.marked(owner)}"
        kept = {i.subject.split()[-1] for i in receipt.items if i.result == "kept"}
        left = {t.id for t in self.house.cloud.things()} & self.had[str(owner.id)] - kept
        assert not left, f"signed as clean, and there: {left}"

    def owner(self) -> OwnerRecord | None:
        with self.house.database.transaction() as tx:
            return site_owner(tx, "lab")

    def marked(self, owner: OwnerRecord | None = None) -> list[Thing]:
        """Resources with the mark of a site's owner, or of any such owner."""
        marks = [(t, t.mark.owner) for t in self.house.cloud.things() if t.mark]
        return [t for t, o in marks if o.kind == "site" and (owner is None or o == owner.owner)]

    def seen(self) -> dict[str, State]:
        return {t.id: state_of(t) for t in self.house.cloud.things()}

    # -- what an operator does --------------------------------------------------------------------------------------

    def edit(self) -> str:
        what, lists = self.lists.edited()
        before = self.seen()
        try:
            activated(self.house, lists)
        except WeftError as error:
            return f"{what}: refused: {str(error)[:150]}"
        finally:
            assert self.seen() == before, "a list that was only activated changes nothing"
        self.lists = lists
        return what

    def plan(self, adopt: bool) -> SitePlan | WeftError:
        before = self.seen()
        try:
            return self.house.plan(adopt)
        except WeftError as error:
            return error
        finally:
            assert self.seen() == before, "a plan changes nothing"

    def apply(self, adopt: bool | None = None) -> str:
        """Apply: it does what the plan said, and writes nothing else."""
        adopt = self.dice.random() < 0.4 if adopt is None else adopt
        planned, before, wanted = self.plan(adopt), self.seen(), self.wanted()
        try:
            done = self.house.ask(adopt)
        except WeftError as error:
            assert (
                isinstance(planned, WeftError) or planned.conflicts or not isinstance(error, ConflictError)
            ), error
            assert self.wanted() == wanted
            self.steps = {}
            return f"{adopt}: refused: {str(error)[:200]}"
        finally:
            assert self.seen() == before, "others may be shown what was applied before it is made"
        if not isinstance(planned, WeftError):
            assert done == planned
        taken = {s.id for s in done.steps if s.action == "adopt" and s.id}
        for id_ in taken:
            self.others.theirs.pop(id_, None)
        self.given |= taken
        self.steps = {s.key: s for s in done.steps}
        return f"{adopt}: {[f'{s.action} {s.key}' for s in done.steps]}"

    def wanted(self) -> object:
        owner = self.owner()
        with self.house.database.transaction() as tx:
            return None if owner is None else desired_of(tx, owner.id)

    def destroy(self) -> str:
        before, owner = self.seen(), self.owner()
        try:
            self.house.service.site.destroy(self.house.operator)
        except WeftError as error:
            after = self.owner()
            assert after is None or owner is None or after.wanted == owner.wanted
            return f"refused: {str(error)[:200]}"
        finally:
            assert self.seen() == before
        return ""

    def abandon(self) -> str:
        try:
            self.house.service.site.abandon(self.house.operator, "it hangs")
        except WeftError as error:
            return f"refused: {error}"
        owner = self.owner()
        assert owner is not None
        self.abandoned.add(str(owner.id))
        return ""

    def repair(self) -> None:
        self.house.service.audits.run(self.house.operator, repair=True)

    def time(self) -> None:
        sweep(self.house)

    def pod(self) -> str:
        """Order a pod that is routed through the external network, which may be the site's; or release it."""
        house = self.house
        self.repaired()
        if self.pods:
            self.pods.clear()
            pod = house.store.pods.find("routed", "team-a")
            house.release(pod)
            self.run(pod, PodState.RELEASED)
            return "released"
        try:
            pod = self.run(house.order(routed("routed")), PodState.READY)
        except WeftError as error:
            return f"refused: {str(error)[:200]}"
        mine = [t for t in house.cloud.things() if t.mark and t.mark.owner.id == str(pod.id)]
        self.pods = {t.id: state_of(t) for t in mine}
        return f"{pod.state}"

    def run(self, pod: PodRecord, until: PodState) -> PodRecord:
        """Visits the owner that has been due for longest: the site may be so, too."""
        for visit in range(400):
            if (pod := self.house.store.pods.find(str(pod.id), None)).state is until:
                return pod
            if visit % 10 == 0:
                self.house.store.wake(pod.id)
            self.dice.choice(self.workers).run_once()
        raise AssertionError(f"{pod.state} {pod.reason}, not {until}")

    def stranger(self) -> str:
        return self.others.act()

    # -- what the loop goes through ---------------------------------------------------------------------------------

    def visits(self, most: int = 3) -> str:
        text = []
        for _ in range(self.dice.randint(1, most)):
            if (owner := self.owner()) is None:
                return "nothing"
            self.house.store.wake(owner.id)
            self.dice.choice(self.workers).run_once()
            self.check()
            owner = self.house.see(owner.id)
            text.append(f"{owner.state} {owner.reason[:120]}")
        return "; ".join(text)

    def fault(self) -> str:
        fault, verb, kind = self.dice.choice(FAULTS)
        self.house.cloud.plant(fault, verb=verb, kind=kind, times=self.dice.randint(1, 2))
        return f"{fault} of {verb} {kind}"

    def die(self) -> str:
        """A process ends in the middle of its visit; its hold runs out."""
        owner, verb = self.owner(), self.dice.choice(("find", "create", "create", "update", "delete"))
        if owner is None or owner.state is PodState.RELEASED:
            return "nothing"
        cloud = self.house.cloud

        def die() -> None:
            raise DiedError

        cloud.meanwhile(verb, die)
        self.house.store.wake(owner.id)
        try:
            self.dice.choice(self.workers).run_once()
        except DiedError:
            self.house.run_out()
            return verb
        finally:
            vars(cloud)["_meanwhile"].clear()
        return f"not at {verb}"

    def repaired(self) -> None:
        """Undo all faults of the cloud."""
        self.house.cloud.faults.clear()
        for thing in self.house.cloud.things():
            thing.undeletable = False

    def settle(self, adopt: bool | None = None) -> str:
        """An apply that succeeds; then nothing differs any more, what wasn't to be replaced is still the same thing,
        and what was to be adopted was."""
        self.repaired()
        text = self.apply(adopt)
        if "refused" in text:
            return text
        ids, steps = self.ids(), self.steps
        for _ in range(25):
            owner = self.owner()
            if owner is None or owner.state is PodState.RELEASED:
                return f"{text}: nothing is described"
            if self.house.service.site.resources(self.house.operator).done:
                break
            self.visits(1)
        else:
            return f"{text}: not yet: {self.visits(1)}"
        again = self.house.plan()
        assert again.nothing, f"{text}: {again.steps} {again.conflicts}"
        for key, id_ in self.ids().items():
            action = steps[key].action if key in steps else ""
            was = steps[key].id if action == "adopt" else ids.get(key, id_)
            assert action in ("create", "recreate") or was == id_, (
                f"{action} {key}: was {was}, is {id_}: {text}"
            )
        return text

    def ids(self) -> dict[str, str]:
        owner = self.owner()
        return {t.mark.key: t.id for t in self.marked(owner) if t.mark} if owner is not None else {}

    # -- the end ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Others leave what is in the way; the site comes to be, and is destroyed, and nothing of it is left."""
        self.repaired()
        if self.pods:
            self.pod()
        owner = self.owner()
        if owner is not None and owner.wanted == "absent":
            self.released()
        for _ in range(60):
            if not (conflicts := self.house.plan(True).conflicts):
                break
            self.give_way({c.id for c in conflicts})
        text = self.applied()
        owner = self.owner()
        if owner is not None and owner.state is not PodState.RELEASED:
            there = {t.id for t in self.marked(owner)}
            self.unused(lambda: self.house.service.site.destroy(self.house.operator))
            self.released()
            receipt = self.house.service.site.receipt(self.house.operator).receipt
            assert receipt.clean, receipt
            listed = {word for i in receipt.items for word in i.subject.split()}
            assert there <= listed, f"{text}: not listed: {there - listed}"
        self.others.check()
        self.others.leave_all()
        self.house.clock.sleep(900)
        for _ in range(4):
            self.house.service.audits.run(self.house.operator, repair=True)
            sweep(self.house)
        assert not self.marked()

    def give_way(self, ids: set[str]) -> None:
        """Owners of resources in the way remove them, with what is on them."""
        things = [t for t in self.house.cloud.things() if t.id in ids]
        if not things or not ids <= self.others.theirs.keys():
            self.others.leave_all()
            self.house.clock.sleep(900)
            self.house.service.audits.run(self.house.operator, repair=True)
            return
        for thing in things:
            on = [t for t in self.house.cloud.things() if thing.id in map(str, _flat(t.fields.values()))]
            for one in (*on, thing):
                if one.id in self.others.theirs:
                    self.others.leave(one)

    def applied(self) -> str:
        for _ in range(6):
            text = self.settle(adopt=True)
            if "not yet" not in text and "refused" not in text:
                return text
            self.others.leave_all()
            for thing in (t for t in self.house.cloud.things() if t.id in self.given and t.mark is None):
                self.house.cloud.lose(thing)  # its adoption ended before the first visit
        raise AssertionError(text)

    def unused(self, work: Callable[[], Any]) -> None:
        """Do `work`; if it is refused, let others leave the site's networks and do it again."""
        try:
            work()
        except ConflictError:
            self.others.leave_all()
            work()

    def released(self) -> None:
        for attempt in range(60):
            owner = self.owner()
            assert owner is not None
            if owner.state is PodState.RELEASED:
                return
            self.visits(1)
            if attempt == 30:
                self.others.leave_all()
        raise AssertionError(f"{owner.state} {owner.reason}")


def _flat(values: Any) -> list[object]:
    return [one for v in values for one in (v if isinstance(v, tuple) else (v,))]


@pytest.mark.parametrize("number", range(examples(16)))
def test_random_sites_are_realized_beside_others(house: SiteHouse, number: int) -> None:
    operator = Operator(house, seeded(number))
    try:
        for _ in range(STEPS):
            operator.act()
        operator.end()
    except BaseException:
        print("\n".join(operator.said))
        raise
