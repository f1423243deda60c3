"""Every order of `examples/pods` on a lab with storage and IPUs, from the file to READY and to a clean receipt."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.people import Person, assert_clean, connection, servers_of
from tests.helpers.labexamples import IMAGES, KEY_PAIR, NOVA, REFUSED, on_lab, orders, with_examples
from tests.helpers.ownlab import own_lab
from weft.app.sitefile import load_site
from weftlab.lab import Lab
from weftlab.site import write_site

pytestmark = [pytest.mark.cloud, pytest.mark.nightly]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl someone@example.net"


@pytest.fixture(scope="module")
def example_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab whose cloud and site have the images, flavors and key pair that the examples name."""
    with own_lab(nodes=16, ipus=16, storage=True) as lab:
        admin, member = connection(lab, "operator"), connection(lab, "team-a")
        for name, (vcpus, ram, specs) in NOVA.items():
            flavor = admin.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=10)
            admin.compute.create_flavor_extra_specs(flavor, specs)
        for name in IMAGES:
            what = {"container_format": "bare", "disk_format": "raw", "visibility": "public"}
            admin.image.create_image(name=name, data=b"nothing that boots", **what)
        member.compute.create_keypair(name=KEY_PAIR, public_key=KEY)
        folder = tmp_path_factory.mktemp("site")
        file = write_site(with_examples(load_site(lab.site_path)), folder)
        operator = Person(lab, "operator", folder)
        activated = operator.weft("site", "activate", str(file))
        assert activated.code == 0, activated.err
        yield lab


@pytest.fixture
def tenant(example_lab: Lab, tmp_path: Path) -> Generator[Person]:
    person = Person(example_lab, "team-a", tmp_path)
    yield person
    for pod in person.weft("pod", "list", "--json").json:
        if pod["state"] != "RELEASED":
            person.weft("pod", "release", pod["id"], "--wait")


@pytest.mark.parametrize("path", orders(), ids=lambda p: p.stem)
def test_example_is_ordered_and_released(tenant: Person, path: Path) -> None:
    """Servers have the names that the plan gave them; what is refused is so with its reason."""
    text = on_lab(path)
    (tenant.folder / "pod.yaml").write_text(text)
    planned = tenant.weft("pod", "plan", "-f", "pod.yaml", "--json")
    made = tenant.weft("pod", "create", "-f", "pod.yaml", "--wait", "--json")
    if path.stem in REFUSED:
        assert planned.code == made.code == 1 and REFUSED[path.stem] in planned.out + planned.err
        return
    assert made.code == 0, made.err
    pod = tenant.weft("pod", "show", made.json["name"], "--json").json
    assert pod["state"] == "READY", pod["reason"]
    names = {s["name"] for s in pod["servers"]}
    assert names == {f"{pod['name']}-{n}" for n in range(pod["order"]["nodes"]["count"])}
    there = servers_of(connection(tenant.lab, "team-a"), pod["id"], everywhere=False)
    assert {s.name for s in there} == {s.hostname for s in there} == names
    released = tenant.weft("pod", "release", pod["name"], "--wait")
    assert released.code == 0, released.err
    assert tenant.weft("pod", "receipt", pod["name"], "--json").json["receipt"]["clean"]
    assert_clean(Person(tenant.lab, "operator", tenant.folder))
