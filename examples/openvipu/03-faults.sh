#!/usr/bin/env bash
# An IPU dies under a partition: automatic resets, then relocation. A cable goes bad: the cluster test finds it.
source "$(dirname "$0")/common.sh"

start pod.log openvipu-sim --pod 16 --port 0 --control 127.0.0.1:0 --agents-file agents
sim="openvipu-sim --control 127.0.0.1:$(sed -n 's/.*control API on port \(.*\)/\1/p' pod.log)"
openvipu-server --init --state state.sqlite
start controller.log openvipu-server --state state.sqlite --poll-interval 0.5 --reset-backoff 0.1 "${free_ports[@]}"
admin="vipu-admin -P $(port_of controller.log admin)"
user="vipu -P $(port_of controller.log user)"

order agents 1 4 >order.json
$admin apply order.json
$user create partition p4 --size 4 --relocatable
$sim probe ipum1:0 ipum1:3
refused $sim probe ipum1:0 ipum2:3

$sim plant dead-ipu ipum1 2
until $sim probe ipum2:0 ipum2:3; do sleep 0.2; done
$user get partition p4
$user remove partition p4

$sim heal
$sim plant bad-cable ipum3 up1
refused $admin test cluster c16
