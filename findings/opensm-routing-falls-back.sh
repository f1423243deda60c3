#!/usr/bin/env bash
# OpenSM that can't use the configured routing engine routes with minhop, reports SUBNET UP, and keeps running.
#
# Version:   opensm 3.3.23-2+b1 (Debian 12), on ibsim 0.10
# Expected:  with routing_engine ftree on a ring of switches, which is no fat tree, OpenSM stops, or what it says of its options or
#            of SUBNET UP names another engine.
# Behaviour: two log lines among all others ("ftree: cannot build lid matrices", "minhop tables configured on all switches") are
#            the only sign. Freedom from deadlocks may be what ftree was chosen for, and minhop doesn't promise it on a ring.
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
{ # three switches in a ring, a host at each: no fat tree
    for n in 1 2 3; do
        printf 'switchguid=0x2c9030010000%s\nSwitch 8 "leaf0%s"\n[1] "host0%s"[1]\n[2] "leaf0%s"[3]\n[3] "leaf0%s"[2]\n\n' \
            $n $n $n $((n % 3 + 1)) $(((n + 1) % 3 + 1))
        printf 'caguid=0x2c9030030000%s\nCa 1 "host0%s"\n[1] "leaf0%s"[1]\n\n' $n $n $n
    done
} >net
mkfifo commands
exec 3<>commands
ibsim -s net <commands >sim.log 2>&1 3>&- &
started+=($!)
disown
for _ in $(seq 100); do grep -q "simulator ready" sim.log 2>/dev/null && break; sleep 0.1; done
sleep 0.5
on_fabric() { LD_PRELOAD=$libraries/umad2sim/libumad2sim.so timeout 30 "$@"; }
echo "Default=0x7fff : ALL=limited, SELF=full;" >partitions.conf
printf 'force_log_flush TRUE\nrouting_engine ftree\n' >opensm.conf
LD_PRELOAD=$libraries/umad2sim/libumad2sim.so opensm -F opensm.conf -P partitions.conf -f sm.log -t 200 -D 0x03 >sm.out 2>&1 3>&- &
started+=($!)
disown
up() { for _ in $(seq 150); do grep -q "SUBNET UP" "$1" 2>/dev/null && return; sleep 0.1; done; echo "no SUBNET UP" >&2; exit 1; }
up sm.log
said=$(grep -oE 'ftree: cannot build lid matrices|[a-z]+ tables configured on all switches|SUBNET UP' sm.log | sort -u)
echo "option read: $(grep -o 'routing_engine = .*' sm.out)"
echo "$said"
sleep 0.5
kill -0 "${started[1]}" 2>/dev/null && running=yes || running=no
echo "still running: $running"
[[ $said == *"ftree: cannot build"*"minhop tables configured"* && $said == *"SUBNET UP"* && $running == yes ]] || { echo "the behaviour has changed" >&2; exit 1; }
