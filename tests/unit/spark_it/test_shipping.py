"""What a pipeline sends to executors is all that its tasks import."""

from __future__ import annotations

import subprocess
import sys

from kavka.spark_it.shipping import packed_code

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import kafka
from kafka.protocol.producer import ProduceRequest
from kavka.spark_it.writing import Task, murmur2_partition
assert kafka.__file__.startswith(sys.argv[1])
print(Task.__module__, murmur2_partition(b"21", 1000))
"""


def test_a_bare_python_imports_the_task_of_replay_from_it() -> None:
    bare = [sys.executable, "-I", "-S"]  # neither site-packages nor the current directory
    found = subprocess.check_output([*bare, "-c", PROGRAM, str(packed_code())], text=True)
    # murmur2("21") is -973932308: org.apache.kafka.common.utils.UtilsTest
    assert found.split() == ["kavka.spark_it.writing", str((-973932308 & 0x7FFFFFFF) % 1000)]
