#!/usr/bin/env bash
# A POD16, a controller, and a partition of 8 IPUs.
source "$(dirname "$0")/common.sh"

start pod.log openvipu-sim --pod 16 --port 0 --control 127.0.0.1:0 --agents-file agents
openvipu-server --init --state state.sqlite
start controller.log openvipu-server --state state.sqlite "${free_ports[@]}"
admin="vipu-admin -P $(port_of controller.log admin)"
user="vipu -P $(port_of controller.log user)"

add_agents agents 1 4
$admin create cluster c16 --topology mesh --agents "$(names agents 1 4)"
$admin test cluster c16

$user create partition p8 --size 8 --options
$user create partition p8 --size 8 --num-gcds 2
$user list partitions
$user get partition p8 --gcd 0 --ipuof-configs
ls .ipuof.conf.d
$user remove partition p8
