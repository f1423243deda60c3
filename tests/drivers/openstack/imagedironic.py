"""A real Ironic with one machine that is a pod's and free, and a fake Glance's images, which their tenant changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.drivers.openstack.fakehardware import clouds_file, enrolled
from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from tests.drivers.openstack.tinyglance import Glance, in_ironic
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.model.errors import NotYetError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import ServerSpec
from weft.ports.resources import Scope
from weftlab.config import Sections

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
NAME = "weft-00000000-server-bm01"
"""The server's name."""


@dataclass(frozen=True)
class Imaged:
    ironic: RealIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    cloud: Glance

    @property
    def node(self) -> dict[str, Any]:
        return self.ironic.ask("GET", f"nodes/{self.ironic.node}")

    def server(self, image: str = "any") -> Resource:
        spec = ServerSpec(
            host=self.ironic.node, bare_metal=True, by="ironic", flavor="metal8", image=image, ports=()
        )
        return Resource(key="server/bm01", name=NAME, where="lab", spec=spec)

    def forget_images(self, *made: str) -> None:
        """Remove the images of earlier tests; those in `made` exist afterwards."""
        self.cloud.things["images"], self.cloud.fetched = [], []
        for image in made:
            self.cloud.image(image, image)

    def create(self, name: str, image: dict[str, object], **late: str) -> str:
        """Create a server; its id.

        Args:
            name: of the image in the server.
            image: its row in Glance.
            late: what the tenant changes in it once the machine belongs to the server and before it is deployed.
        """
        asked = 0

        def tenant() -> None:
            nonlocal asked
            asked += 1
            if asked == 3:
                image.update(late)

        one = self.server(name)
        made = self.driver.create(replace(SCOPE, fence=tenant), [one], {})[one.key]
        assert made.id is not None and late.items() <= image.items(), made.error
        return made.id

    def see(self, server: str) -> Observed:
        one = self.server()
        return self.driver.find(SCOPE, [one], {one.key: server})[one.key]

    def until(self, server: str, *statuses: Status) -> Observed:
        end = time.monotonic() + PATIENCE
        while (seen := self.see(server)).status not in statuses:
            assert time.monotonic() < end, seen
            time.sleep(0.3)
        return seen

    def leave(self, server: str) -> None:
        one = self.server()
        error = self.driver.delete(SCOPE, [one], {one.key: server})[one.key].error
        assert error is None or isinstance(error, NotYetError), error
        self.until(server, Status.ABSENT)
        self.ironic.await_state("available")


@contextmanager
def imaged_ironic(
    folder: Path, sections: Sections, by_ironic: bool = False, port: bool = False, **node: object
) -> Iterator[Imaged]:
    """A real Ironic with the fake Glance.

    Args:
        folder: for its files.
        sections: of its configuration.
        by_ironic: weft's facts have it as deploying without Nova.
        port: the machine has one.
        node: further fields of its node.
    """
    with ExitStack() as stack:
        cloud, text = stack.enter_context(tiny_cloud(Glance))
        assert isinstance(cloud, Glance)
        ironic = stack.enter_context(real_ironic(folder, {**sections, **in_ironic(text, folder)}))
        sessions = Sessions("weft", [clouds_file(folder, text, ironic)])
        stack.callback(sessions.close)
        driver = OpenStackDriver("lab", sessions, machines=True)
        stack.callback(driver.close)
        enrolled(ironic, extra={"weft": SCOPE.mark("machine/bm01").text()}, **node)
        if port:
            ironic.ask("POST", "ports", {"node_uuid": ironic.node, "address": "02:00:00:00:b0:01"})
        ironic.provision("provide", "available")
        facts = OpenStackFacts(sessions, machines=[ironic.node], by_ironic=by_ironic)
        yield Imaged(ironic, driver, facts, cloud)
