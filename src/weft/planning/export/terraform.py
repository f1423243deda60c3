"""A site's own networks as a configuration for Terraform (or OpenTofu) and its OpenStack provider, as JSON.

The same graph that `weft site apply` creates. Existing resources get `import` blocks instead of being created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.model.errors import InputError
from weft.model.resources import Graph, Observed
from weft.model.site import Site
from weft.model.specs import AggregateSpec, PropertiesSpec
from weft.planning.export.terraformblocks import (
    EXTERNAL,
    GROUP,
    INTERFACE,
    NETWORK,
    PORT,
    ROUTER,
    RULE,
    SHARE,
    SUBNET,
    Fields,
    TerraformBlock,
    blocks_of,
    external_of_others,
)
from weft.planning.export.terraformtext import literal, tf_file
from weft.planning.site.graph import cloud_of, site_graph
from weft.ports.existing import ExistingResources

_FILES = {
    "networks": (NETWORK, SUBNET, SHARE, ROUTER, INTERFACE),
    "security_groups": (GROUP, RULE),
    "ports": (PORT,),
}
"""File -> types of resources in it; shares of groups are in the file of networks' shares."""
NOTHING = ExistingResources()


def terraform_files(
    site: Site, cloud: str | None = None, there: ExistingResources = NOTHING, profile: str | None = None
) -> dict[str, str]:
    """Path -> text. Raises `InputError`.

    Args:
        there: what already exists in the cloud.
        profile: name in clouds.yaml, if it isn't the site's.
    """
    name = cloud_with_networks(site, cloud)
    profile = profile or profile_of(site, name)
    graph = graph_of(site, name)
    blocks = blocks_of(graph)
    files = {"main.tf.json": tf_file(site.name, _head(profile, graph))}
    for file, types in _FILES.items():
        tables: dict[str, dict[str, Fields]] = {}
        for block in blocks:
            if block.type in types:
                tables.setdefault(block.type, {})[block.name] = block.fields
        if tables:
            files[f"{file}.tf.json"] = tf_file(site.name, {"resource": tables})
    if imports := [{"to": block.address, "id": found} for block, found in _found(blocks, there)]:
        files["imports.tf.json"] = tf_file(site.name, {"import": imports})
    return {**files, "README.md": _readme(site, name, profile, len(blocks), len(imports))}


def cloud_with_networks(site: Site, cloud: str | None) -> str:
    """The cloud with this name; None: the only one whose networks the site describes. Raises `InputError`."""
    described = sorted({cloud_of(network) for network in site.networks.values()})
    if cloud in described or (cloud is None and len(described) == 1):
        return cloud or described[0]
    listed = ", ".join(described) or "there are none"
    raise InputError("--cloud", cloud, f"one of the clouds with networks in the site file: {listed}")


def graph_of(site: Site, cloud: str) -> Graph:
    """The networks that the site needs in one of its clouds; weft alone manages what is in Nova and Glance."""
    mine = (r for r in site_graph(site).resources if r.where == cloud)
    return Graph(resources=tuple(r for r in mine if not isinstance(r.spec, PropertiesSpec | AggregateSpec)))


def profile_of(site: Site, cloud: str) -> str:
    """Name of the cloud in clouds.yaml."""
    return site.clouds[cloud].profile or cloud


def _found(blocks: list[TerraformBlock], there: ExistingResources) -> Iterator[tuple[TerraformBlock, str]]:
    """Those that already exist, with their ids."""
    parts = {(part.of, _sorted(part.fields)): part.id for part in there.parts}
    for block in blocks:
        own = there.ids.get(block.of)
        if own is None:
            continue
        if block.part is None:
            yield block, own
            continue
        known = {name: there.ids.get(str(value), value) for name, value in block.part.items()}
        if (found := parts.get((own, _sorted(known)))) is not None:
            yield block, found


def unknown_parts(site: Site, cloud: str, there: ExistingResources) -> Iterator[str]:
    """Parts of existing resources that aren't in the files: Terraform neither sees nor removes them."""
    imported = {found for _, found in _found(blocks_of(graph_of(site, cloud)), there)}
    keys = {found: key for key, found in there.ids.items()}
    for part in there.parts:
        if part.id not in imported:
            said = ", ".join(f"{name} {value}" for name, value in sorted(part.fields.items()))
            what = f"{keys[part.of]} has a {part.kind} {part.id} that the site doesn't have"
            yield f"{what} ({said}): Terraform leaves it"


def differing(graph: Graph, seen: Mapping[str, Observed]) -> Iterator[str]:
    """Fields of imported resources that differ from the site; Terraform would change them.

    Rules, shares and interfaces aren't fields to Terraform: `unknown_parts` reports those that the site doesn't have.

    Args:
        seen: key -> what was observed of what would be imported.
    """
    for resource in graph.resources:
        found = seen.get(resource.key)
        for one in found.differences if found is not None else ():
            if one.field not in _PARTS:
                then = "leaves it" if one.field in _UNSAID else "would change it"
                has = f"has {one.field} {one.observed}, not {one.wanted} as in the site"
                yield f"{resource.key} {found.id if found else ''} {has}: Terraform {then}"


_UNSAID = frozenset({"nat"})
"""Fields that are omitted from the files: by default only administrators may set them."""
_PARTS = frozenset({"mark", "rules", "ssh_from", "shared_with", "subnets"})


def _sorted(fields: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(fields.items()))


def _head(profile: str, graph: Graph) -> Fields:
    """Versions, the provider, and networks that aren't the site's."""
    provider = {"source": "terraform-provider-openstack/openstack", "version": "~> 3.0"}
    found: Fields = {
        # Import blocks are from 1.5 on.
        "terraform": {"required_version": ">= 1.5.0", "required_providers": {"openstack": provider}},
        "provider": {"openstack": {"cloud": literal(profile)}},
    }
    if (external := external_of_others(graph)) is not None:
        found["data"] = {NETWORK: {EXTERNAL: {"name": literal(external), "external": True}}}
    return found


def _readme(site: Site, cloud: str, profile: str, blocks: int, imports: int) -> str:
    known = (
        f"`imports.tf.json` has {imports} of the {blocks} resources: they already exist in the cloud, and Terraform "
        "imports them into its state instead of creating them. `terraform plan` must show nothing to replace."
        if imports
        else "Nothing is imported. If some of it already exists in the cloud, export again with `--live`."
    )
    steps = (
        f"Credentials: the profile `{profile}` of weft's service user in `clouds.yaml`, which Terraform's "
        "OpenStack provider reads as weft does. Neither the files nor Terraform's state contain any. Pods look for the "
        "site's networks in that user's project. To create networks, the user needs Neutron's policy "
        "`create_network:segments`.",
        known,
        "`terraform init`, `terraform plan`, `terraform apply`.",
        "Remove resources with either `terraform destroy` or `weft site destroy`, never with both. Terraform leaves "
        "weft's marks (descriptions) alone, so that `weft site plan` and `weft audit` stay usable (`weft site apply "
        "--adopt` adds the marks to resources created by Terraform).",
    )
    listed = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
    return f"# {site.name}: networks in cloud {cloud}, for Terraform\n\n{listed}\n"
