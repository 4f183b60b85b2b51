"""An S3 server of this machine, for tests of lakes on an object store."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

MOTO_SERVER = Path(__file__).parent.parent.parent / ".venv-stores" / "bin" / "moto_server"
HADOOP_S3 = "org.apache.hadoop:hadoop-aws:3.5.0"  # of the Hadoop that Spark 4.2 brings
_KEY, _SECRET, _REGION = "key", "hush", "us-east-1"


class S3Server(NamedTuple):
    """A server with a bucket that is called ``bucket``."""

    port: int
    files: fs.S3FileSystem

    @property
    def environment(self) -> dict[str, str]:
        """What a process without Spark finds it by."""
        keys = {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": _REGION}
        return {**os.environ, **keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    @property
    def options(self) -> dict[str, str]:
        """What Spark must know of it."""
        return {
            "spark.jars.packages": HADOOP_S3,
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "spark.hadoop.fs.s3a.endpoint.region": _REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _SECRET,
        }

    def copy(self, folder: str, to: Path) -> None:
        """Copy a folder of the bucket."""
        fs.copy_files(f"bucket/{folder}", str(to), source_filesystem=self.files)

    def put(self, folder: Path, to: str) -> None:
        """Copy a folder into the bucket."""
        fs.copy_files(str(folder), f"bucket/{to}", destination_filesystem=self.files)


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """The server; its log goes into the folder."""
    assert MOTO_SERVER.exists(), f"there is no {MOTO_SERVER}; `make soak` makes that environment."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "store.log").open("wb") as log:
        server = subprocess.Popen([MOTO_SERVER, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    place = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": _REGION}
    files = fs.S3FileSystem(**place, access_key=_KEY, secret_key=_SECRET, allow_bucket_creation=True)
    try:
        end = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < end:
            time.sleep(0.1)
        files.create_dir("bucket")
        yield S3Server(port, files)
    finally:
        server.terminate()
        server.wait()
