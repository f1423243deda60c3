"""Maps of pods with virtual functions and parts of nodes: what isn't known isn't shown as known."""

from __future__ import annotations

from tests.engine.house import House
from tests.engine.life.test_functions import house, small
from weft.model.pod import PodState
from weft.model.views import PodMap

__all__ = ["house"]


def mapped(house: House, name: str) -> PodMap:
    return house.service.pods.map(house.operator, name)


def test_map_of_shared_nodes_names_each_adapter_of_a_function(house: House) -> None:
    """InfiniBand's port of a function may be on either adapter; a trunk port is on its own. The pods stay apart."""
    pods = [house.run(house.order(small(name)), PodState.READY) for name in ("one", "two")]
    for pod in pods:
        found = mapped(house, str(pod.id))
        assert found.ports and {port.node for port in found.ports} == set(pod.nodes)
        for port in found.ports:
            assert (port.held, port.held_since, port.wanted, port.seen) == (True, None, True, "in")
            assert port.server == f"{pod.name}-0" and not port.differs
            function = port.port.startswith("0x")
            assert port.adapter.split(" or ") == (["mlx5_0", "mlx5_1"] if function else [port.adapter])
            assert len(port.leaf_wanted.split(" or ")) == (2 if function else 1)
    one, two = ({port.port for port in mapped(house, str(pod.id)).ports} for pod in pods)
    trunks = {port for port in one if not port.startswith("0x")}
    assert one & two == trunks


def test_map_names_all_servers_of_the_pod_on_a_node(house: House) -> None:
    """A port of a shared node may be of any of them; the state of only one would be taken for the port's."""
    pod = house.run(house.order(small("two", 2)), PodState.READY)
    assert len(set(pod.nodes)) == 1
    for port in mapped(house, str(pod.id)).ports:
        assert (port.server, port.server_id, port.server_state) == ("two-0, two-1", "", "")
