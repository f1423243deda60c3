#!/bin/sh
# What busybox's udhcpc does with a lease.
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address add $ip/$mask dev $interface
for gateway in $router; do ip route add default via $gateway; break; done
