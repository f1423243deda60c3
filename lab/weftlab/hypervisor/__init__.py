"""Servers that run: QEMU guests without hardware virtualization, by Nova's own libvirt driver, on Open vSwitch.

One libvirtd serves every host. Each host has an integration bridge of its own, cabled to the bridge `mgmt`, which
plays the management network's switches. Everything is in the lab's own namespaces.
"""
