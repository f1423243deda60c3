"""Pure decisions: values in, values or a Refusal out. Each rule has its reason and its source.

Sources are cited as ``[user guide]`` and ``[admin guide]`` (Graphcore's V-IPU guides), ``[API]`` (the
public user API), ``[seen]`` (commands and outputs in public use) or "our choice".
"""
