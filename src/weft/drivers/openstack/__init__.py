"""OpenStack: resources, identity and facts of a cloud.

sessions = Sessions("weft")                       # the service user's profile in clouds.yaml
driver = OpenStackDriver("lab", sessions)         # ResourceDriver
identity = KeystoneIdentity(sessions)             # Identity
signin = KeystoneSignIn(sessions)                 # SignIn
facts = OpenStackFacts(sessions, "public")        # CloudFacts
"""

from weft.drivers.openstack.driver import OpenStackDriver
from weft.drivers.openstack.existing import OpenStackExisting
from weft.drivers.openstack.facts import OpenStackFacts
from weft.drivers.openstack.identity import KeystoneIdentity
from weft.drivers.openstack.session import Sessions
from weft.drivers.openstack.signin import KeystoneSignIn

__all__ = [
    "KeystoneIdentity",
    "KeystoneSignIn",
    "OpenStackDriver",
    "OpenStackExisting",
    "OpenStackFacts",
    "Sessions",
]
