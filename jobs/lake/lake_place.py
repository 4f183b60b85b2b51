"""Where a lake stands: one spelling in, each library's own out.

``s3://`` and ``s3a://`` are one store. Hadoop's client calls it ``s3a``, all others ``s3``. Credentials and the
server come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ...), never from the place; where Spark's
options alone name them, its workers are given an environment of these.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from hindsight.conf.failure import ExpectedError

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql import SparkSession

_HADOOP, _OTHERS = "s3a://", "s3://"
_LOCAL = ("", "file")
_NAME_NODE = 8020  # HdfsClientConfigKeys.DFS_NAMENODE_RPC_PORT_DEFAULT (hadoop-hdfs-client 3.5.0)
_STORES = ("s3://", "hdfs://", "gs://", "abfs://")
_OF_HADOOP = {
    "AWS_ENDPOINT_URL": "fs.s3a.endpoint",
    "AWS_REGION": "fs.s3a.endpoint.region",
    "AWS_ACCESS_KEY_ID": "fs.s3a.access.key",
    "AWS_SECRET_ACCESS_KEY": "fs.s3a.secret.key",
    "AWS_SESSION_TOKEN": "fs.s3a.session.token",
}  # a library's variable: the option of Hadoop's client that says the same
_SECURE = "fs.s3a.connection.ssl.enabled"


class NoLocalEngineError(ExpectedError):
    """Raised where a lake cannot be read or written without Spark; nothing was done."""


class UnknownStoreError(ExpectedError):
    """Raised for a store whose files no client reads here; nothing was done."""


def for_hadoop(place: str) -> str:
    """A place as Spark's Hadoop client knows it."""
    return _HADOOP + place.removeprefix(_OTHERS) if place.startswith(_OTHERS) else place


def for_others(place: str) -> str:
    """A place as Arrow and delta-rs know it; a local one as a plain path."""
    if place.startswith(_HADOOP):
        return _OTHERS + place.removeprefix(_HADOOP)
    return url2pathname(urlsplit(place).path) if place.startswith("file:") else place


def hadoop_place(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """A path and its file system, as Spark's Hadoop client knows them."""
    # By its whole name: asked for part by part, each part is looked for in every jar.
    path = getattr(spark._jvm, "org.apache.hadoop.fs.Path")(for_hadoop(place))
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def qualified(spark: SparkSession, place: str) -> str:
    """A place with its store, which Spark's Hadoop client may give to a plain path; a local one as it is."""
    path, system = hadoop_place(spark, place)
    if system.getScheme() == "file":
        return for_hadoop(place)
    return str(path.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())


def is_local(place: str) -> bool:
    """Whether it is a folder of this machine."""
    return urlsplit(place).scheme in _LOCAL or "://" not in for_others(place)


def refuse_without_spark(place: str) -> None:
    """Refuse a store that this machine's engine does not reach. Raises: NoLocalEngineError."""
    scheme = urlsplit(for_others(place)).scheme
    if not is_local(place) and scheme != "s3":
        raise NoLocalEngineError(f"{scheme}:// is reached by Spark only; run with --engine spark.")


def file_system(place: str) -> tuple[fs.FileSystem, str]:
    """Arrow's file system of a place, and the path in it.

    Raises: UnknownStoreError: a store of which no client knows here.
    """
    from pyarrow import fs  # which not everybody needs who has a place

    place = for_others(place)
    if "://" not in place:
        return fs.LocalFileSystem(), str(Path(place).absolute())
    scheme, _, path = place.partition("://")
    if scheme == "s3":
        server = server_of_s3()
        return fs.S3FileSystem(**({"endpoint_override": server} if server else {})), path
    if scheme == "hdfs":
        server, _, path = path.partition("/")
        return _hdfs(server), f"/{path}"
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(place)
    except ValueError:  # whose message would repeat the place, and with it a secret that it holds
        known = f"known are {', '.join(_STORES)} and folders"
        raise UnknownStoreError(f"{scheme}:// is no store whose files can be read and written here; {known}.") from None
    return found


@cache
def _hdfs(server: str) -> fs.FileSystem:
    """HDFS by a client that needs neither a JVM nor Hadoop's libraries: workers have none.

    ``server``: a name node, or a service that files in ``HADOOP_CONF_DIR`` explain; empty: their default. A client is
    kept here and not by fsspec, which in a process that is forked (to start a JVM) ends its own: that waits for ever.
    """
    from hdfs_native.fsspec import HdfsFileSystem
    from pyarrow import fs

    host, _, port = server.partition(":")
    try:
        client = HdfsFileSystem(host or None, int(port) if port else None, skip_instance_cache=True)
    except RuntimeError as error:  # no service has that name: then it is a host's
        if port or not host:
            raise UnknownStoreError(f"hdfs://{server} names no name node ({error}); set HADOOP_CONF_DIR.") from None
        client = HdfsFileSystem(host, _NAME_NODE, skip_instance_cache=True)
    return fs.PyFileSystem(fs.FSSpecHandler(client))


def delta_options(place: str) -> dict[str, str]:
    """What delta-rs needs beside the environment: a commit is put where none stands, an endpoint may be plain HTTP."""
    if is_local(place):
        return {}
    return {"conditional_put": "etag", **({"allow_http": "true"} if server_of_s3().startswith("http://") else {})}


def server_of_s3() -> str:
    """The server that the environment names; empty: it names none, so it is that of AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def environment_of(option: Callable[[str], str | None]) -> dict[str, str]:
    """What options of Hadoop's client say of an S3 store, as the environment of other libraries.

    ``option``: an option's value by its name; None or empty: it is not set, and is found as these libraries do (a role,
    the store of AWS). An endpoint without a scheme is of HTTPS unless ``fs.s3a.connection.ssl.enabled`` says false
    (hadoop-aws 3.5.0).
    """
    told = {name: value for name, of in _OF_HADOOP.items() if (value := option(of))}
    server = told.get("AWS_ENDPOINT_URL")
    if server and "://" not in server:
        scheme = "http" if option(_SECURE) == "false" else "https"
        told["AWS_ENDPOINT_URL"] = f"{scheme}://{server}"
    return told


def remove_folder(spark: SparkSession | None, folder: str) -> None:
    """Remove a folder, if it is there; with Spark through its Hadoop client.

    Raises: NoLocalEngineError: without Spark, and on a store that only Spark reaches.
    """
    if is_local(folder):
        shutil.rmtree(for_others(folder), ignore_errors=True)
    elif spark is None:
        refuse_without_spark(folder)
        system, path = file_system(folder)
        found = system.get_file_info(path)
        if found.type.name != "NotFound":
            system.delete_dir(path)
    else:
        place, files = hadoop_place(spark, folder)
        files.delete(place, True)
