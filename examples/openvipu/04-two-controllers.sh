#!/usr/bin/env bash
# One POD64, two controllers: disjoint machines, one key each, and no way from one to the other's.
source "$(dirname "$0")/common.sh"

start pod.log openvipu-sim --pod 64 --port 0 --control 127.0.0.1:0 --agents-file agents
sim="openvipu-sim --control 127.0.0.1:$(sed -n 's/.*control API on port \(.*\)/\1/p' pod.log)"
for tenant in red blue; do
  openvipu-server --init --state $tenant.sqlite
  start $tenant.log openvipu-server --state $tenant.sqlite "${free_ports[@]}"
done

order agents 1 4 >red.json
vipu-admin -P "$(port_of red.log admin)" apply red.json
order agents 5 8 >blue.json
vipu-admin -P "$(port_of blue.log admin)" apply blue.json

vipu -P "$(port_of red.log user)" create partition p --size 16
vipu -P "$(port_of blue.log user)" create partition p --size 16
$sim probe ipum1:0 ipum4:3
$sim probe ipum5:0 ipum8:3
refused $sim probe ipum4:0 ipum5:3

read -r name host port < <(sed -n 1p agents)
refused vipu-admin -P "$(port_of blue.log admin)" create agent "$name" --host "$host" --port "$port"
