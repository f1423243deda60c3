#!/usr/bin/env bash
# grafana-foundation-sdk is published under versions with an epoch that is a time stamp: no ordinary pin or range finds it,
# and the newest version is not the one for the newest Grafana.
#
# Version:   grafana-foundation-sdk 1769699998!10.1.0 (for Grafana 10.1) and 1769699379!11.6.0 (for 11.6), both published
# Expected:  ==11.6.0 finds the package for Grafana 11.6; 11.6.0 is newer than 10.1.0.
# Behaviour: pip finds no distribution for ==11.6.0 nor for ~=11.6 (an epoch that isn't written is 0); of the two, 10.1.0 is the
#            newer one, since it was uploaded ten minutes later. The epoch must be part of the pin.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
pip=("$tmp/v/bin/pip" --disable-pip-version-check)
got() { "${pip[@]}" download -q --no-deps -d "$tmp/$1" "grafana-foundation-sdk$2" 2>"$tmp/err" && ls "$tmp/$1" || grep -o 'No matching distribution found' "$tmp/err"; }
exact=$(got a '==11.6.0')
range=$(got b '~=11.6')
epoch=$(got c '==1769699379!11.6.0')
newer=$(got d '>=1769699379!11.6.0,<=1769699998!10.1.0')
printf '%s\n' "==11.6.0: $exact" "~=11.6: $range" "==1769699379!11.6.0: $epoch" "newest of 1769699379!11.6.0 to 1769699998!10.1.0: $newer"
[[ $exact == No\ matching* && $range == No\ matching* && $epoch == *11.6.0* && $newer == *10.1.0* ]] || { echo "the behaviour has changed" >&2; exit 1; }
