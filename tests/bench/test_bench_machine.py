"""What is said of the machine, from the texts that Linux gives."""

from lmk_integrations.bench.machine import Machine, cpu_facts, describe_machine, telling_flags

CPUINFO = """processor\t: 0
model name\t: Some CPU @ 2.00GHz
flags\t\t: fpu amx_bf16 sse avx2 amx_int8

processor\t: 1
model name\t: Another
"""


def test_the_first_processor_is_told():
    """Its name and those of its flags that decide the speed, in a fixed order."""
    facts = cpu_facts(CPUINFO)
    assert facts["model name"] == "Some CPU @ 2.00GHz"
    assert telling_flags(facts["flags"]) == ("avx2", "amx_bf16", "amx_int8")
    assert cpu_facts("") == {}


def test_as_a_sentence():
    """Nothing is claimed that is not known."""
    known = Machine("CPU", 2, ("avx2",), 24 * 2**30, "Linux 6", "3.11.7")
    assert str(known) == "CPU (avx2), 2 cores, 24 GiB, Linux 6, Python 3.11.7"
    unknown = Machine("CPU", 1, (), 0, "Linux 6", "3.11.7")
    assert str(unknown) == "CPU, 1 core, Linux 6, Python 3.11.7"


def test_this_machine():
    """It has a name and a core."""
    here = describe_machine()
    assert here.cpu
    assert here.cores >= 1
    assert here.to_dict()["flags"] == here.flags
