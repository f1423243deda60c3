"""Runs in Terraform's own environment: Terraform itself, with stand-ins of hashicorp/http 3 and Mastercard/restapi 3.

Their attributes are those of the providers' published pages, and so is what they send: POST to `path`, GET, PUT and
DELETE of `path/{id}`. Of what the API answers only that counts which isn't in `ignore_changes_to`: if it isn't what
`data` has, the next plan puts it back.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import tfplugin_proto.tfplugin5_2_pb2 as pb
import tfplugin_proto.tfplugin5_2_pb2_grpc as rpc
from terraform_server import UNKNOWN, packed, run, unpacked

TEXT, NUMBER, TRUTH = b'"string"', b'"number"', b'"bool"'
TEXTS, LIST = b'["map","string"]', b'["list","string"]'
METHODS = {"create": "POST", "read": "GET", "update": "PUT", "destroy": "DELETE"}
HTTP = (
    {"url": TEXT},
    {
        **dict.fromkeys(("ca_cert_pem", "client_cert_pem", "client_key_pem", "method", "request_body"), TEXT),
        **{"insecure": TRUTH, "request_headers": TEXTS, "request_timeout_ms": NUMBER},
    },
    {
        **dict.fromkeys(("body", "id", "response_body", "response_body_base64"), TEXT),
        **{"response_headers": TEXTS, "status_code": NUMBER},
    },
)
"""Attributes: required, optional, computed."""
RESTAPI = (
    {},
    {
        **dict.fromkeys(("bearer_token", "cert_file", "id_attribute", "key_file", "password"), TEXT),
        **dict.fromkeys(("root_ca_file", "root_ca_string", "test_path", "uri", "username"), TEXT),
        **{f"{act}_method": TEXT for act in METHODS},
        **dict.fromkeys(("create_returns_object", "debug", "insecure", "write_returns_object"), TRUTH),
        **{"copy_keys": LIST, "headers": TEXTS, "rate_limit": NUMBER, "timeout": NUMBER},
    },
    {},
)
OBJECT = (
    {"data": TEXT, "path": TEXT},
    {
        **{f"{act}_{what}": TEXT for act in METHODS for what in ("method", "path")},
        **dict.fromkeys(("destroy_data", "read_data", "update_data"), TEXT),
        **dict.fromkeys(("id_attribute", "object_id", "query_string"), TEXT),
        **dict.fromkeys(("debug", "ignore_all_server_changes", "ignore_server_additions"), TRUTH),
        **dict.fromkeys(("force_new", "ignore_changes_to"), LIST),
    },
    {"api_data": TEXTS, "api_response": TEXT, "create_response": TEXT, "id": TEXT},
)


def block(attributes: tuple[dict[str, bytes], dict[str, bytes], dict[str, bytes]]) -> Any:
    found = pb.Schema.Block(version=0)
    for kind, some in zip(("required", "optional", "computed"), attributes, strict=True):
        for name, of in some.items():
            found.attributes.add(name=name, type=of, **{kind: True})
    return found


def sent(method: str, url: str, headers: dict[str, str], body: str | None) -> tuple[int, str, dict[str, str]]:
    """Sends a request: status, body and headers of the answer."""
    data = body.encode() if body else None
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


class Common(rpc.ProviderServicer):
    schema: Any

    def GetSchema(self, request: Any, context: Any) -> Any:
        return self.schema

    def PrepareProviderConfig(self, request: Any, context: Any) -> Any:
        return pb.PrepareProviderConfig.Response(prepared_config=request.config)

    def Configure(self, request: Any, context: Any) -> Any:
        self.given = unpacked(request.config)
        return pb.Configure.Response()

    def Stop(self, request: Any, context: Any) -> Any:
        return pb.Stop.Response()


class Http(Common):
    schema = pb.GetProviderSchema.Response(provider=pb.Schema(block=pb.Schema.Block()))
    schema.data_source_schemas["http"].block.CopyFrom(block(HTTP))

    def ValidateDataSourceConfig(self, request: Any, context: Any) -> Any:
        return pb.ValidateDataSourceConfig.Response()

    def ReadDataSource(self, request: Any, context: Any) -> Any:
        given = unpacked(request.config)
        method, headers = given["method"] or "GET", given["request_headers"] or {}
        status, body, answered = sent(method, given["url"], headers, given["request_body"])
        coded = base64.b64encode(body.encode()).decode()
        given |= {"id": given["url"], "status_code": status, "response_headers": answered}
        given |= {"body": body, "response_body": body, "response_body_base64": coded}
        return pb.ReadDataSource.Response(state=packed(given))


class RestApi(Common):
    schema = pb.GetProviderSchema.Response(provider=pb.Schema(block=block(RESTAPI)))
    schema.resource_schemas["restapi_object"].block.CopyFrom(block(OBJECT))

    def ValidateResourceTypeConfig(self, request: Any, context: Any) -> Any:
        return pb.ValidateResourceTypeConfig.Response()

    def UpgradeResourceState(self, request: Any, context: Any) -> Any:
        state = pb.DynamicValue(json=request.raw_state.json)
        return pb.UpgradeResourceState.Response(upgraded_state=state)

    def ask(self, act: str, of: dict[str, Any], id_: str) -> tuple[int, str]:
        path = of[f"{act}_path"] or (of["path"] if act == "create" else f"{of['path'].rstrip('/')}/{{id}}")
        method = of[f"{act}_method"] or self.given[f"{act}_method"] or METHODS[act]
        body = of["data"] if act in ("create", "update") else None
        url = self.given["uri"] + path.replace("{id}", id_)
        status, text, _ = sent(method, url, self.given["headers"] or {}, body)
        if not 200 <= status < 300 and status != 404:
            raise RuntimeError(f"unexpected response code '{status}': {text}")
        return status, text

    def read(self, state: dict[str, Any]) -> dict[str, Any] | None:
        status, text = self.ask("read", state, state["id"])
        if status == 404:
            return None
        found, wanted = json.loads(text), json.loads(state["data"])
        ignored = state["ignore_changes_to"] or []
        assert state["ignore_server_additions"], "the stand-in knows no other comparison"
        wanted |= {
            key: found.get(key) for key in wanted if key not in ignored and found.get(key) != wanted[key]
        }
        said = {key: str(value) for key, value in found.items()}
        same = wanted == json.loads(state["data"])
        data = state["data"] if same else json.dumps(wanted)
        return {**state, "data": data, "api_response": text, "api_data": said}

    def ReadResource(self, request: Any, context: Any) -> Any:
        return pb.ReadResource.Response(new_state=packed(self.read(unpacked(request.current_state))))

    def PlanResourceChange(self, request: Any, context: Any) -> Any:
        new, old = unpacked(request.proposed_new_state), unpacked(request.prior_state)
        answer = pb.PlanResourceChange.Response()
        if new is not None and (old is None or new["data"] != old["data"]):
            new |= {"api_data": UNKNOWN, "api_response": UNKNOWN}
            if old is None:
                new |= {"id": UNKNOWN, "create_response": UNKNOWN}
        answer.planned_state.CopyFrom(packed(new))
        return answer

    def ApplyResourceChange(self, request: Any, context: Any) -> Any:
        new, old = unpacked(request.planned_state), unpacked(request.prior_state)
        try:
            if new is None:
                self.ask("destroy", old, old["id"])
            else:
                key = new["id_attribute"] or self.given["id_attribute"] or "id"
                new["id"] = new["object_id"] or json.loads(new["data"])[key]
                said = self.ask("update" if old else "create", new, new["id"])[1]
                new["create_response"] = old["create_response"] if old else said
                new = self.read(new)
        except Exception as error:
            failed = pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=str(error))
            return pb.ApplyResourceChange.Response(new_state=request.prior_state, diagnostics=[failed])
        return pb.ApplyResourceChange.Response(new_state=packed(new))


if __name__ == "__main__":
    names = {"hashicorp/http": Http(), "Mastercard/restapi": RestApi()}
    run({f"registry.terraform.io/{name.lower()}": one for name, one in names.items()})
