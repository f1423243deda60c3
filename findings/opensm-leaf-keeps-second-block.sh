#!/usr/bin/env bash
# When a host's P_Keys fit one block of 32 again, OpenSM empties the host's second block, and leaves the leaf port's as it was.
#
# Version:   opensm 3.3.23-2+b1 (Debian 12), on ibsim 0.10
# Expected:  partitions are removed from the file, OpenSM hears SIGHUP and reports SUBNET UP: the port of the host and the
#            port of the leaf it is cabled to, which enforces partitions, have the remaining keys only.
# Behaviour: the host's table is right. The leaf's has all the keys of its entries 32 and up, of partitions that don't
#            exist any more, also after a second SIGHUP. (From 20 keys to 1, one block, both are right.)
set -euo pipefail
tmp=$(mktemp -d)
started=()
end() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    for _ in $(seq 30); do kill -0 "${started[@]}" 2>/dev/null || break; sleep 0.1; done
    for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$tmp"
}
trap end EXIT
cd "$tmp"
apt-get -q download opensm=3.3.23-2+b1 libopensm9=3.3.23-2+b1 libosmcomp5=3.3.23-2+b1 libosmvendor5=3.3.23-2+b1 ibsim-utils=0.10-2 \
    libumad2sim0=0.10-2 infiniband-diags=44.0-2 libibmad5=44.0-2 libibumad3=44.0-2 libibnetdisc5=44.0-2 libwrap0 libnsl2 libtirpc3 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
libraries=$tmp/root/usr/lib/x86_64-linux-gnu
export PATH=$tmp/root/usr/sbin:$tmp/root/usr/bin:$PATH LD_LIBRARY_PATH=$libraries:$tmp/root/lib/x86_64-linux-gnu
export IBSIM_SOCKNAME=finding-$$ OSM_CACHE_DIR=$tmp/ OSM_TMP_DIR=$tmp/ SIM_HOST=host01
for n in 1 2 3; do
    printf "caguid=0x2c9030030000%s\nCa 1 \"host0%s\"\n[1] \"leaf01\"[%s]\n\n" $n $n $n
done >hosts
{ printf "switchguid=0x2c90300100000\nSwitch 8 \"leaf01\"\n"; printf "[%s] \"host0%s\"[1]\n" 1 1 2 2 3 3; echo; cat hosts; } >net
mkfifo commands
exec 3<>commands
ibsim -s net <commands >sim.log 2>&1 3>&- &
started+=($!)
disown
for _ in $(seq 100); do grep -q "simulator ready" sim.log 2>/dev/null && break; sleep 0.1; done
sleep 0.5
on_fabric() { LD_PRELOAD=$libraries/umad2sim/libumad2sim.so timeout 30 "$@"; }
partitions() { # NUMBER of partitions
    echo "Default=0x7fff : ALL=limited, SELF=full;"
    for n in $(seq "$1"); do printf 'p%d=0x%04x : ALL=full;\n' "$n" "$n"; done
}
up() { # how often it was reported
    for _ in $(seq 150); do [[ $(grep -c "SUBNET UP" sm.log 2>/dev/null) -ge $1 ]] && return; sleep 0.1; done
    echo "no SUBNET UP" >&2
    exit 1
}
keys() { # PATH PORT: how many different keys a port has
    on_fabric smpquery -D pkeys "$1" "$2" >table 2>&1 3>&- || { cat table >&2; exit 1; }
    grep -oE '0x[0-9a-f]{4}' table | grep -v 0x0000 | sort -u | wc -l
}
partitions 40 >partitions.conf
echo "force_log_flush TRUE" >opensm.conf
LD_PRELOAD=$libraries/umad2sim/libumad2sim.so opensm -F opensm.conf -P partitions.conf -f sm.log -t 200 >sm.out 2>&1 3>&- &
manager=$!
started+=("$manager")
disown
up 1
found="$(keys 0,1,2 1) $(keys 0,1 2)"
for number in 20 1; do
    partitions $number >partitions.conf
    for _ in 1 2; do
        times=$(grep -c "SUBNET UP" sm.log)
        kill -HUP "$manager"
        up $((times + 1))
        sleep 1
    done
    found+=", $(keys 0,1,2 1) $(keys 0,1 2)"
done
echo "keys of host02's port and of leaf01's port 2, with 40 partitions, 20, and 1: $found"
[[ $found == "41 41, 21 30, 2 11" ]] || { echo "the behaviour has changed" >&2; exit 1; }
