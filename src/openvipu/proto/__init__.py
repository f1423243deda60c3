"""Wire schemas: the public V-IPU user API (package ``virmgrpc``) and openvipu's own services.

The ``*_pb2*`` files are generated and committed; ``python -m openvipu.proto.generate`` makes them again.
"""
