#!/bin/sh
# The part of Ironic's agent that a rescue needs: it reports its address to Ironic, and waits for a password (`command.sh` takes it).
# Source: ironic-python-agent 11, `agent.py`, `ironic_api_client.py`.
word() { sed -n "s/.*$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
api=$(word ipa-api-url)
word ipa-agent-token > /run/token
device=$(ls /sys/class/net | grep -v lo | head -n 1)
address=$(ip -o -4 address show dev $device | sed 's/.*inet \([^/ ]*\).*/\1/')
mkdir -p /run/www/cgi-bin && cp /bin/command /run/www/cgi-bin/agent
httpd -p 9999 -h /run/www

version="X-OpenStack-Ironic-API-Version: 1.78"
echo "AGENT of $api at $address"
until wget -q -O /run/lookup --header "$version" "$api/v1/lookup?addresses=$(cat /sys/class/net/$device/address)"; do
    sleep 1
done
node=$(tr ',{' '\n\n' < /run/lookup | sed -n 's/.*"uuid": *"\([^"]*\)".*/\1/p' | head -n 1)
where="\"callback_url\": \"http://$address:9999/cgi-bin/agent\""
who="\"agent_version\": \"11.0.0\", \"agent_token\": \"$(cat /run/token)\""
until [ -e /run/rescued ]; do
    wget -q -O /dev/null --header "$version" --post-data "{$where, $who}" "$api/v1/heartbeat/$node"
    sleep 1
done
echo "AGENT has a password for user rescue"
while :; do
    dropbear -F -R -E
    sleep 1
done
