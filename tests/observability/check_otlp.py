"""Reads OTLP/HTTP JSON, one request a line, with OpenTelemetry's protobuf definitions: an unknown member or a value of
another type ends it. Then checks what the definitions say in words: https://opentelemetry.io/docs/specs/otlp/"""
import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_protobufs_ids(value):
    """OTLP writes ids in hexadecimal, where protobuf's JSON has base64; that is its one difference."""
    if isinstance(value, list):
        return [with_protobufs_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_protobufs_ids(one) for name, one in value.items()}
    for name, size in IDS.items():
        if name in made:
            assert len(made[name]) == 2 * size and made[name] == made[name].lower(), made[name]
            made[name] = base64.b64encode(bytes.fromhex(made[name])).decode()
    return made


def main():
    spans = []
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            request = json_format.ParseDict(with_protobufs_ids(json.loads(line)), ExportTraceServiceRequest())
            for resource in request.resource_spans:
                assert any(a.key == "service.name" for a in resource.resource.attributes)
                spans += [span for scope in resource.scope_spans for span in scope.spans]
    assert spans, "nothing was sent"
    for span in spans:
        assert len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
        assert span.name and span.kind and 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert all(len(link.trace_id) == 16 and len(link.span_id) == 8 for link in span.links)
        names = [a.key for a in span.attributes]
        assert len(names) == len(set(names)), names
        assert all(a.value.WhichOneof("value") for a in span.attributes)
    print(f"traces: {len(spans)} spans are what OpenTelemetry's definitions say")


main()
