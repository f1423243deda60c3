#!/usr/bin/env bash
# opensm.conf knows one spelling of true: TRUE. Any other is read as FALSE, without a word.
#
# Version:   opensm 3.3.23-2+b1 (Debian 12)
# Expected:  qos true, qos True, qos yes and qos 1 switch qos on, or are refused as other malformed values are (a number is).
# Behaviour: only TRUE in capitals is true. The others leave the option FALSE, and OpenSM says nothing about that line.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get -q download opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 libibumad3=44.0-2 \
    libwrap0 libnsl2 libtirpc3 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$tmp/root/usr/lib/x86_64-linux-gnu:$tmp/root/lib/x86_64-linux-gnu
# `opensm -c` reads a configuration, writes down the options that are in force, and ends.
in_force() {
    echo "$1" >given.conf
    root/usr/sbin/opensm -F given.conf -c in-force.conf >said 2>&1 || { cat said; exit 1; }
    awk -v option="${1%% *}" '$1 == option { print $2 }' in-force.conf
}
for value in TRUE true True yes 1; do
    got=$(in_force "qos $value")
    wanted=FALSE
    [ $value = TRUE ] && wanted=TRUE
    echo "qos $value: in force: $got; messages about it: $(grep -ciE 'error|unrecognized' said || true)"
    [[ $got == "$wanted" ]] && ! grep -qiE 'error|unrecognized' said || { echo "the behaviour has changed" >&2; exit 1; }
done
