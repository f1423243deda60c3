"""HTTP client of weft's API: signs in like every OpenStack client, finds the API in the catalog, gives plain data."""

from weft.client.asking import LONGEST_WAIT
from weft.client.client import Client
from weft.client.signin import SERVICE_TYPE, connect, of_cloud

__all__ = ["LONGEST_WAIT", "SERVICE_TYPE", "Client", "connect", "of_cloud"]
