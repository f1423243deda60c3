#!/usr/bin/env bash
# When a port's P_Key table is too small, OpenSM fills it by the low byte of the keys first, not in numeric or file order.
#
# Version:   opensm 3.3.23-2+b1 (Debian 12), on ibsim 0.10, whose ports have 64 entries
# Expected:  with 80 keys for 64 entries the keys that are last in the file, or the highest ones, don't fit.
# Behaviour: keys are ordered by their bytes as a little-endian number: 0x0100 before 0x0200 before ... before 0x0001. The keys
#            0x0001, 0x0002 ..., which are first in the file, lose: those above 0x0017 aren't in the table, and SUBNET UP is reported all the same.
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
{
    echo "Default=0x7fff : ALL=limited, SELF=full;"
    for n in $(seq 40); do printf 'low%d=0x%04x : ALL=full;\n' "$n" "$n"; done
    for n in $(seq 40); do printf 'high%d=0x%02x00 : ALL=full;\n' "$n" "$n"; done
} >partitions.conf
echo "force_log_flush TRUE" >opensm.conf
LD_PRELOAD=$libraries/umad2sim/libumad2sim.so opensm -F opensm.conf -P partitions.conf -f sm.log -t 200 >sm.out 2>&1 3>&- &
started+=($!)
disown
up() { for _ in $(seq 150); do grep -q "SUBNET UP" "$1" 2>/dev/null && return; sleep 0.1; done; echo "no SUBNET UP" >&2; exit 1; }
up sm.log
on_fabric smpquery -D pkeys 0,1,2 >table 2>&1 3>&- || { cat table; exit 1; } # of the port behind leaf01's port 2: host02
cat table
keys=$(grep -oE '0x[0-9a-f]{4}' table | sort -u | tr '\n' ' ')
wanted=$({
    echo 0x7fff
    for n in $(seq 23); do printf '0x%04x\n' $((0x8000 + n)); done
    for n in $(seq 40); do printf '0x%04x\n' $((0x8000 + n * 256)); done
} | sort | tr '\n' ' ')
echo "log lines that say the table is full: $(grep -c 'ERR 0512.*full' sm.log || true)"
[[ $keys == "$wanted" ]] || { echo "the behaviour has changed" >&2; exit 1; }
