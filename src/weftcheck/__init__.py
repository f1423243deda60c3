"""weft-check: what is wrong with this host, guest or ramdisk as a node of an accelerator pod.

Needs Python 3.9 and nothing else, and imports nothing of weft: it runs where weft isn't installed.
"""

VERSION = "0.1.0"
