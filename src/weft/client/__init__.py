"""HTTP client of weft's API: signs in like every OpenStack client, finds the API in the catalog, gives plain data."""

from weft.client.signin import SERVICE_TYPE, connect, of_cloud
from weft.client.verbs import LONGEST_WAIT, Client

__all__ = ["LONGEST_WAIT", "SERVICE_TYPE", "Client", "connect", "of_cloud"]
