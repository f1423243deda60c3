"""Values to text: partitions.conf and, later, cloud-init, Kolla, Terraform …"""
