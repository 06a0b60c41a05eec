"""The Python code that a pipeline's tasks need on the executors of a cluster, sent along with them.

Executors have PySpark's own modules and what the cluster's administrators installed. Pipelines
bring the rest: Kavka's package for Spark and kafka-python, which are Python alone.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEFT_OUT: Final = (".pyc", ".pyi")


def ship_code(spark: SparkSession) -> None:
    """Send the code to the executors of a session whose tasks run in other processes' Python."""
    context = spark.sparkContext
    master = str(context.master)
    if not master.startswith("local") or master.startswith("local-cluster"):
        context.addPyFile(str(packed_code()))


@functools.cache
def packed_code() -> Path:
    """A zip file from which Python imports `kavka.spark_it` and `kafka`; until this process ends,
    as executors may ask the driver for it at any time."""
    import kafka

    directory = Path(tempfile.mkdtemp(prefix="kavka-spark-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    packed = directory / "kavka-tasks.zip"
    here = Path(__file__).parent
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as into:
        into.write(here.parent / "__init__.py", "kavka/__init__.py")
        for root, name in ((here, "kavka/spark_it"), (Path(kafka.__path__[0]), "kafka")):
            for file in sorted(root.rglob("*")):
                if file.is_file() and file.suffix not in LEFT_OUT:
                    into.write(file, f"{name}/{file.relative_to(root).as_posix()}")
    return packed
