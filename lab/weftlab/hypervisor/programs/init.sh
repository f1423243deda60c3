#!/bin/sh
# The guest's first process: what cloud-init does of a config drive, with busybox alone. Names, keys, addresses, routes,
# and user data that is a script. Nova writes its documents in one line each, without line breaks in values.
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts && mount -t devpts pts /dev/pts
for module in $(cat /lib/modules/order); do insmod /lib/modules/$module; done
ip link set lo up

# A guest with a disk of its own only needs the drivers from here.
root=$(sed -n 's/.*root=\([^ ]*\).*/\1/p' /proc/cmdline)
if [ -n "$root" ] && [ "$root" != /dev/ram0 ]; then # Ironic gives a ramdisk that one
    mount -t ext4 "$root" /mnt
    umount /dev/pts
    for folder in proc sys dev; do mount -o move /$folder /mnt/$folder; done
    exec switch_root /mnt /sbin/init
fi

drive() {
    for device in /dev/sr0 /dev/vd? /dev/sd?; do
        [ -b $device ] && mount -t iso9660 -o ro $device /mnt 2>/dev/null || continue
        [ -d /mnt/openstack/latest ] && return 0
        umount /mnt
    done
    return 1
}
tries=0
until drive; do
    tries=$((tries + 1))
    [ $tries -gt 100 ] && echo "GUEST without a config drive" && break
    sleep 0.1
done
cp /mnt/openstack/latest/* /run/ 2>/dev/null

# One object a line: fields of an object that come before its first inner object are on its own line.
tr -d '\n' < /run/network_data.json | sed 's/{/\n{/g' > /run/objects
field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"; }

grep ethernet_mac_address /run/objects | while read -r link; do
    mac=$(echo "$link" | field ethernet_mac_address)
    id=$(echo "$link" | field id)
    mtu=$(echo "$link" | field mtu)
    device=$(grep -li "$mac" /sys/class/net/*/address | head -n 1 | cut -d/ -f5)
    [ -n "$device" ] || { echo "GUEST without adapter $mac"; continue; }
    case "$mtu" in ''|null) ;; *) ip link set $device mtu $mtu ;; esac
    ip link set $device up
    # An object's line, and those of its routes, up to the next network's.
    awk -v id="$id" '/"link": /{ours = index($0, "\"link\": \"" id "\"") > 0} ours' /run/objects > /run/network
    grep -q '"type": "ipv4_dhcp"' /run/network && udhcpc -q -n -t 20 -T 1 -i $device -s /bin/leased
    address=$(field ip_address < /run/network | head -n 1)
    netmask=$(field netmask < /run/network | head -n 1)
    [ -n "$address" ] && ip address add $address/$netmask dev $device
    gateway=$(grep '"network": "0.0.0.0"' /run/network | field gateway | head -n 1)
    [ -n "$gateway" ] && ip route add default via $gateway
done

# Ironic has booted this to rescue a machine.
grep -q ipa-agent-token= /proc/cmdline && exec /bin/agent

hostname "$(field hostname < /run/meta_data.json | head -n 1)"
grep -o 'ssh-[a-z0-9-]* AAAA[A-Za-z0-9+/=]*' /run/meta_data.json | sort -u > /root/.ssh/authorized_keys
chmod 700 /root /root/.ssh
chmod 600 /root/.ssh/authorized_keys
ip -o address
mkdir -p /var/log && syslogd
case "$(head -c 2 /run/user_data 2>/dev/null)" in '#!') chmod 755 /run/user_data; /run/user_data ;; esac
echo "GUEST UP $(hostname) after $(cut -d' ' -f1 /proc/uptime) s"
while :; do
    dropbear -F -R -s -E
    sleep 1
done
