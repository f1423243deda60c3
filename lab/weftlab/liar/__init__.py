"""The liar: a proxy between weft and the lab's OpenStack that forwards everything until a lie is planted.

    messages    what was asked and what is answered, as values
    lies        the table of lies: name -> function
    rules       which request is lied to: service, method, path, how often, by chance
    proxy       one listening port a service, forwarding to the real one
    control     the JSON API by which rules are planted and hits are read
    client      that API from Python, for tests and for `weft lab lie`

Run as `python -m weftlab.liar` by the lab's supervisor (`weft lab up --liar`), see docs/lab.md.
"""

from weftlab.liar.client import Liar, LiarError
from weftlab.liar.control import running
from weftlab.liar.lies import LIES
from weftlab.liar.proxy import Route
from weftlab.liar.rules import Rule

__all__ = ["LIES", "Liar", "LiarError", "Route", "Rule", "running"]
