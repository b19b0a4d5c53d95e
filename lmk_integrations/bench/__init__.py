"""Measurements: how fast this package encodes, ingests and searches, beside its peers.

Every contender is a process of its own (`serve`), so that peak memory and library versions are
its own too, and contenders take turns, so that a busy moment of the machine hits all of them.
"""
