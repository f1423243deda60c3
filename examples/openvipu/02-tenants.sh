#!/usr/bin/env bash
# Two tenants on one secure controller: each sees its own allocation only.
source "$(dirname "$0")/common.sh"

start pod.log openvipu-sim --pod 16 --port 0 --control 127.0.0.1:0 --agents-file agents
key=$(openvipu-server --init --secure --state state.sqlite | sed -n "s/.*Access key is '\(.*\)'.*/\1/p")
start controller.log openvipu-server --state state.sqlite "${free_ports[@]}"
admin="vipu-admin -P $(port_of controller.log admin) --api-user-id admin --api-access-key $key"

order agents 1 4 >order.json
$admin apply order.json
$admin create allocation red --size 8
$admin create allocation blue --size 8
$admin create user alice --allocations red
$admin create user bob --allocations blue
alice="vipu --config alice.vipu-cli.hcl -P $(port_of controller.log user)"
bob="vipu --config bob.vipu-cli.hcl -P $(port_of controller.log user)"

$alice create partition training --size 8
$alice list partitions
$bob list partitions
$bob list allocations
refused $bob remove partition training --force
refused $bob create partition mine --size 4 --allocation red
refused vipu -P "$(port_of controller.log user)" list partitions
