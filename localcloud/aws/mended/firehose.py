"""What Firehose does to records on their way into a bucket; moto puts them there as they come.

https://docs.aws.amazon.com/firehose/latest/dev/writing-with-cloudwatch-logs-decompression.html,
https://docs.aws.amazon.com/firehose/latest/APIReference/API_Processor.html
"""

from __future__ import annotations

import gzip
from typing import Any

from moto.firehose.models import FirehoseBackend

from localcloud.aws.mended.method import method

_put_s3_records = FirehoseBackend.put_s3_records
_object_path = FirehoseBackend._format_s3_object_path


def _process(config: dict[str, Any], data: bytes) -> bytes:
    settings = config.get("ProcessingConfiguration") or {}
    kinds = [each["Type"] for each in settings.get("Processors", [])] if settings.get("Enabled") else []
    for kind in kinds:
        if kind == "Decompression":
            data = gzip.decompress(data)
        elif kind == "AppendDelimiterToRecord":
            data += b"\n"
    return data


@method(FirehoseBackend, "put_s3_records")
def _put(self: FirehoseBackend, name: str, version: str, config: dict[str, Any], records: list[Any]) -> Any:
    """Process records, and compress the object that holds them."""
    stream: Any = self.delivery_streams[name]
    config = stream.destinations[0].get("ExtendedS3", config)
    data = b"".join(_process(config, record["Data"]) for record in records)
    if config.get("CompressionFormat") == "GZIP":
        data = gzip.compress(data)
    extension = config.get("FileExtension", "")
    self._format_s3_object_path = lambda *where: _object_path(*where) + extension  # type: ignore[method-assign]
    made = _put_s3_records(self, name, version, config, [{"Data": data}])
    return made * len(records)
