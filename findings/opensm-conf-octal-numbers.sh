#!/usr/bin/env bash
# Numbers in opensm.conf are read as C does: with a leading zero they are octal.
#
# Version:   opensm 3.3.23-2+b1 (Debian 12)
# Expected:  sweep_interval 0100 is a hundred seconds, as a column of numbers padded with zeros means it.
# Behaviour: 0100 is 64 and 010 is 8; 08 isn't a number at all, is reported on stdout, and the default stays in force.
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
default=$(in_force "qos FALSE" >/dev/null; awk '$1 == "sweep_interval" { print $2 }' in-force.conf)
found=
for value in 100 0100 010 08 0x10; do
    got=$(in_force "sweep_interval $value")
    refused=$(grep -q 'Parsing error in field sweep_interval' said && echo ", refused" || true)
    echo "sweep_interval $value: in force: $got$refused (default: $default)"
    found+="$got$refused "
done
[[ $found == "100 64 8 $default, refused 16 " ]] || { echo "the behaviour has changed" >&2; exit 1; }
