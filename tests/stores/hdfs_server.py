"""An HDFS of this machine, one name node and one data node, for tests of lakes on it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

from hindsight.jobs.lake.lake_place import file_system
from tests.collect.real_cluster import free_port, resolved

_HADOOP = "3.5.0"  # that Spark 4.2 brings
_ARTIFACTS = [
    *(("org.apache.hadoop", f"hadoop-client-{part}", _HADOOP) for part in ("minicluster", "api", "runtime")),
    # what the test classes among them need, and do not bring
    ("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
    ("org.bouncycastle", "bcprov-jdk18on", "1.78.1"),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
]


class HdfsServer(NamedTuple):
    """Its name node's URI, and the environment of a process to which it is the store of plain paths."""

    uri: str
    environment: dict[str, str]

    def copy(self, folder: str, to: Path) -> None:
        """Copy a folder of it."""
        files, place = file_system(f"{self.uri}/{folder}")
        fs.copy_files(place, str(to), source_filesystem=files)

    def put(self, folder: Path, to: str) -> None:
        """Copy a folder into it."""
        files, place = file_system(f"{self.uri}/{to}")
        fs.copy_files(str(folder), place, destination_filesystem=files)


@contextmanager
def hdfs_server(folder: Path) -> Iterator[HdfsServer]:
    """The store; what it keeps, its log and its settings (``core-site.xml``) go into the folder."""
    port, settings = free_port(), folder / "core-site.xml"
    words = ["-nnport", str(port), "-format", "-writeConfig", str(settings), "-writeDetails", str(folder / "up.json")]
    main = ["org.apache.hadoop.test.MiniDFSClusterManager", *words]
    options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={folder / 'data'}"]
    classes = resolved(_ARTIFACTS, folder / "maven")
    with (folder / "store.log").open("wb") as log:
        server = subprocess.Popen(["java", *options, "-cp", classes, *main], cwd=folder, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 120
        while not (folder / "up.json").exists():
            assert server.poll() is None and time.monotonic() < end, (folder / "store.log").read_text()
            time.sleep(0.1)
        yield HdfsServer(f"hdfs://127.0.0.1:{port}", {**os.environ, "HADOOP_CONF_DIR": str(folder)})
    finally:
        server.terminate()
        server.wait()
