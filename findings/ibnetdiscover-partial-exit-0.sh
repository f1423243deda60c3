#!/usr/bin/env bash
# ibnetdiscover leaves a healthy host out after a time-out, prints a whole-looking file, and exits with 0.
#
# Version:   infiniband-diags 44.0-2 (Debian 12), on ibsim 0.10
# Expected:  a discovery in which a query went unanswered ends with an error, or marks the file as incomplete.
# Behaviour: one NodeInfo query of host03 is lost: the file has two hosts instead of three and reads like that of a smaller fabric.
#            The only sign is a line on stderr ("bad status 110"), which scripts that keep stdout never see. So a host that's missing from a
#            discovery isn't known to be gone.
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
echo "Default=0x7fff : ALL=limited, SELF=full;" >partitions.conf
echo "force_log_flush TRUE" >opensm.conf
LD_PRELOAD=$libraries/umad2sim/libumad2sim.so opensm -F opensm.conf -P partitions.conf -f sm.log -t 200 >sm.out 2>&1 3>&- &
started+=($!)
disown
up() { for _ in $(seq 150); do grep -q "SUBNET UP" "$1" 2>/dev/null && return; sleep 0.1; done; echo "no SUBNET UP" >&2; exit 1; }
up sm.log
seen() {
    local code=0
    on_fabric ibnetdiscover >found 2>err 3>&- || code=$?
    echo "exit code $code, $(grep -c ^Ca found || true) hosts, time-outs on stderr: $(grep -q 'bad status 110' err && echo yes || echo no)"
}
whole=$(seen)
echo 'Error "host03"[1] 100 17' >&3 # the simulator loses every NodeInfo request (attribute 0x11) to host03 from now on
sleep 0.5
partial=$(seen)
echo "nothing lost:                  $whole"
echo "NodeInfo of host03 unanswered: $partial"
[[ $whole == "exit code 0, 3 hosts, time-outs on stderr: no" && $partial == "exit code 0, 2 hosts, time-outs on stderr: yes" ]] ||
    { echo "the behaviour has changed" >&2; exit 1; }
