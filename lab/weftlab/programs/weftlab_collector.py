"""Imported by a service that has loaded all that it needs: the garbage collector ignores what exists by then, and runs
less often. By default it takes a tenth of the processor time of Neutron's API, whose rows are many small objects.
"""

import gc

gc.collect()
gc.freeze()
gc.set_threshold(20_000, 20, 20)
